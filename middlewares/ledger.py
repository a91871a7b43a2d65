"""Ledger: a tool that changes something runs once for each delivery, across processes, restarts and machines."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, cast

import anyio
import attrs
from returns.result import Failure, Success

from ..base import timing
from ..base.options import check_secret, is_number, refuse
from ..base.setup_error import SetupError
from ..engine.call import Outcome, ValidCall, make_uuid
from ..engine.compose import Handler, Placement
from ..engine.errors import NotExecuted, OutcomeUnknown, Transient, Unavailable
from ..engine.guards import Guard, Guards, landed_of
from ..once.dead_owners import Undecided, bury_claims, find_undecided
from ..once.decision import decide
from ..once.in_process import Flight, ask_verify, read_end, settle_lost, tell_part
from ..once.kept_outcomes import NOT_KEPT, read_outcome, write_outcome
from ..once.ledger_records import (
    UNDECIDED,
    Claim,
    Delivery,
    Known,
    Names,
    Records,
    Seen,
)
from ..once.owners import Owner, lives
from ..once.row_versions import VERSION, NewerRowError, check_version, read_mark
from ..policies.plan import remark_on_plan
from ..privacy import get_logger
from ..stores import Memory, Store, StoreError

_TRIES = 1000  # of a claim that others keep changing
_LONGEST_SECRET = 64  # bytes, as of a key of BLAKE2b
_FIRST_POLL, _LAST_POLL = 0.02, 0.5  # seconds
_CLOSING = 5.0  # seconds for the end of a call that was cancelled
_SEARCH = 3600.0  # seconds at least between two searches for claims of the dead, which read many rows
_NOTHING = Seen(None, {})
_STILL_RUNS = "this very call still runs; its result is not known yet"
_logger = get_logger()


@attrs.define(eq=False)
class _Lease(Guard):
    """Refuses a body whose owner may be taken for dead by now. Asked right before the body, in each attempt."""

    counts_bodies: ClassVar[bool] = True  # else it is asked only while a tool is closed

    owner: Owner
    tool: str
    ended: bool = False

    def conclude(self, call: Any, landed: Any) -> None:
        """It learns nothing of how a body ended."""

    def refuse(self, call: Any) -> Outcome | None:  # noqa: ARG002
        """Unavailable once the lease is too old; NotExecuted once it is written down how the call ended."""
        if self.ended:
            return Failure(NotExecuted("the call has been answered"))
        return None if self.owner.may_begin else _away(self.tool, "the lease of this process ended")


@attrs.define(eq=False)
class Ledger:
    """A middleware that keeps in a store what began and how it ended, for tools that are not ``read``.

    The same delivery again (principal, conversation, reply, call id, tool, arguments as written) waits for its answer
    or gets it again, marked as replayed, before any stage may refuse it or take something for it. While an equal call
    may have taken effect, a mutating tool is not run: its ``verify=`` is asked, and else the answer is
    `OutcomeUnknown`; a keyed one runs with the key of that call. After a known end nothing is left, so two equal
    payments both run.

    Without the store nothing begins: such a call is `Unavailable`, and reads go on.

    Args:
        store: Where, see `toolcall_pipeline.stores`. The pipeline opens and closes it. Default: the memory of this
            process.
        secret: The key of the digests, at most 64 bytes: without it, who reads the store could guess short arguments.
            Default ``b""``: no key.
        keep: Seconds for which an answer is kept, and what is undecided, from its end on. Default: 7 days.
        max_wait: Seconds for which a delivery waits for itself. Default 30.
        lease: Seconds after which an owner on another host that renews nothing counts as dead. Default 15.
        repeats: ``"run"``: after a known end an equal call is honest, and runs. ``"replay"``: an equal call of a later
            reply in the same conversation gets the answer of one that succeeded, for models that repeat what they have
            done; give each run a ``conversation``. Default ``"run"``.

    Raises:
        SetupError: An option is out of its range, or of another type.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="ledger",
        reason="outside of retry, whose attempts are one delivery, and inside of all that may hold a call back",
        holds_back="a delivery that was answered does not begin again",
        begins=True,
    )

    store: Store = attrs.field(factory=Memory)
    secret: bytes = attrs.field(default=b"", kw_only=True, repr=False)
    keep: float = attrs.field(default=7 * 86400.0, validator=is_number(above=0, unit="seconds"), kw_only=True)
    max_wait: float = attrs.field(default=30.0, validator=is_number(least=0, unit="seconds"), kw_only=True)
    lease: float = attrs.field(default=15.0, validator=is_number(above=0, unit="seconds"), kw_only=True)
    repeats: Literal["run", "replay"] = attrs.field(default="run", kw_only=True)
    _records: Records = attrs.field(init=False, repr=False)
    # Whether the store may hold rows of the release before; None: it has not been asked.
    _has_old_rows: bool | None = attrs.field(init=False, default=None, repr=False)
    _owner: Owner | None = attrs.field(init=False, default=None, repr=False)
    _inside: set[str] = attrs.field(init=False, factory=set[str], repr=False)  # deliveries that have called on
    _awaited: dict[str, Flight] = attrs.field(init=False, factory=dict[str, Flight], repr=False)
    _arriving: dict[str, Flight] = attrs.field(init=False, factory=dict[str, Flight], repr=False)
    _late: list[Callable[[], Awaitable[object]]] = attrs.field(init=False, factory=list[Any], repr=False)
    _search_at: float = attrs.field(init=False, default=-inf, repr=False)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.store, type) or not callable(getattr(self.store, "write", None)):
            refuse("Ledger", "store", "a store, such as stores.SQLite(path)", self.store)
        check_secret("Ledger", self.secret, _LONGEST_SECRET)
        if self.repeats not in ("run", "replay"):
            refuse("Ledger", "repeats", "'run' or 'replay'", self.repeats)
        self._records = Records(self.store, self.keep)

    @property
    def opens_itself(self) -> bool:
        """Whether it works outside of ``async with pipeline``: with a store in memory, which needs no lease."""
        return isinstance(self.store, Memory)

    @property
    def resources(self) -> tuple[Store, ...]:
        """The store, which is opened before this stage."""
        return (self.store,)

    async def __aenter__(self) -> Self:
        """Take the lease of this process, or later, where the store is away.

        Raises:
            SetupError: A process of an earlier release uses the store, or a later one has written to it.
        """
        if not self.opens_itself:
            with suppress(StoreError):
                self._has_old_rows = await read_mark(self.store)
        owner = Owner(self.store, self.lease, self._keep_up)
        await owner.open()
        self._owner = owner
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            with anyio.move_on_after(_CLOSING):
                while self._late:  # a store sends no event when it is back
                    await self._flush()
                    await anyio.sleep(_LAST_POLL if self._late else 0)
            if self._late:
                _logger.warning("Ends of calls that are not in the ledger, and count as lost: %d", len(self._late))
            await owner.close()

    def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Awaitable[Outcome]:
        """The inside's outcome, or the kept one of a delivery that came before."""
        if _is_left_alone(call):
            return call_next(call)
        return self._run(call, call_next)

    def look_up(self, call: ValidCall, call_next: Handler[ValidCall]) -> Awaitable[Outcome]:
        """Answer a delivery that came before. The pipeline puts this ahead of all that may hold a call back.

        So a redelivery takes nothing from a limit, and none refuses it in place of its answer. Whatever has to be said
        of another call, and whether the store can be reached, is said at the place of the stage.
        """
        if _is_left_alone(call) or not (call.id or self.repeats == "replay"):
            return call_next(call)
        return self._look_up(call, call_next)

    async def _look_up(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        if self._find_owner() is None:
            return await call_next(call)
        until, flight = timing.monotonic() + self.max_wait, Flight(call)
        names = Names.of(call, self.secret)
        try:
            while (first := self._arriving.setdefault(names.id, flight)) is not flight:
                with timing.move_on_after(until - timing.monotonic()):
                    await first.wait()
                if timing.monotonic() >= until:
                    return _away(call.tool.name, _STILL_RUNS)
            answer: Outcome | str | None = None
            with suppress(SetupError, StoreError):
                before = await self._prepare(call, names)
                if self.repeats == "replay":
                    answer = await self._find_success(call, names, before)
                for tried in range(_TRIES):
                    if answer is not None:
                        break
                    chosen = await self._records.choose(names, before)
                    seen = await self._records.look(chosen, whole=False)
                    answer = await self._decide(call, chosen, seen, {}, until, tried)
            return await call_next(call) if answer is None or isinstance(answer, str) else answer
        finally:
            if self._arriving.get(names.id) is flight:
                del self._arriving[names.id]
            flight.end(None)

    def _find_owner(self) -> Owner | None:
        if self._owner is None and self.opens_itself:
            self._owner = Owner(self.store, self.lease, self._keep_up)
        return self._owner

    async def _prepare(self, call: ValidCall, names: Names) -> Names | None:
        """Be ready for a call; returns its names in the release before. None: no such row is left.

        Raises:
            StoreError: The store gave no answer.
            SetupError: As `read_mark`.
        """
        if self._late:
            await self._flush()
        if self._has_old_rows is None:
            self._has_old_rows = await read_mark(self.store)
        return names.as_before(call, self.secret) if self._has_old_rows else None

    async def _run(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        tool, owner = call.tool.name, self._find_owner()
        if owner is None or not owner.may_begin:
            return _away(tool, "the ledger is not open in this process, or its lease ended")
        names = Names.of(call, self.secret)
        try:
            before = await self._prepare(call, names)
            told = await self._find_success(call, names, before) if self.repeats == "replay" else None
            claim = told or await self._arrive(call, names, before, owner)
        except (SetupError, NewerRowError) as exc:
            return _away(tool, str(exc))
        except StoreError:
            return _away(tool, "the ledger cannot be reached")
        if not isinstance(claim, Claim):
            return claim
        names = claim.names
        call = call.with_idempotency_key(claim.key) if claim.key != call.idempotency_key else call
        lease = _Lease(owner, call.tool.name)
        guards = Guards.of(lease) if call.guards is None else call.guards.add(lease)
        self._inside.add(names.id)
        outcome: Outcome | None = None
        try:
            inside = call.under(call.report, guards)
            outcome = await call_next(inside)
            if type(outcome) is not Success and guards.effect is not None:
                outcome = tell_part(guards.effect, await settle_lost(inside, guards.effect, outcome))
            return outcome
        finally:
            if type(outcome) is not Success:
                with cast("Any", guards.lock):
                    lease.ended = True
            try:
                await self._end(claim, call, guards, outcome, owner)
            finally:  # cancelled while it is written: it runs no more, and who waits asks the store
                self._inside.discard(names.id)  # before the next line: see `_wait`
                if self._awaited:
                    self._land(names.id, outcome)

    async def _end(self, claim: Claim, call: ValidCall, guards: Guards, outcome: Outcome | None, owner: Owner) -> None:
        """Write how it ended, also in a task that is cancelled; if the store gives no answer, later."""
        known = _read_known(guards, outcome)
        if known in UNDECIDED and (outcome is None or call.tool.effect == "mutating"):
            outcome = _unknown(call)  # for those who ask again, whatever was said first
        error: object = cast("Any", outcome).failure() if type(outcome) is Failure else None
        is_forgotten = known == "no" and isinstance(error, (NotExecuted, Unavailable))
        kept = None if outcome is None or is_forgotten else write_outcome(outcome, call)
        success: Delivery | None = None
        if self.repeats == "replay" and known == "yes" and kept is not None and claim.names.succeeded:
            success = {"id": claim.names.id, "reply": call.reply, "outcome": kept, "done": timing.wall_time()}
        written = False
        try:
            written = await _is_written(self._records.end(claim, known, kept, success))
        except BaseException:  # cancelled, and nothing is written twice: the second time the versions differ
            with anyio.move_on_after(_CLOSING, shield=True):
                written = await _is_written(self._records.end(claim, known, kept, success))
            raise
        finally:
            if known in UNDECIDED and guards.effect is not None:
                guards.effect.forget = partial(self._learn, claim.names, call)
            if written:
                owner.running.discard(claim.names.id)
            else:
                self._late.append(partial(self._end_late, owner, claim, known, kept, success))
                _logger.warning("Tool %.200r: its end is not in the ledger yet", call.tool.name)

    async def _end_late(
        self, owner: Owner, claim: Claim, known: Known, kept: Mapping[str, Any] | None, success: Delivery | None
    ) -> None:
        """Write the end of a call that was answered before; without its answer, which the store perhaps refuses."""
        try:
            await self._records.end(claim, known, kept, success)
        except Exception:
            if kept is None:
                raise
            lost = success and {**success, "outcome": NOT_KEPT}
            await self._records.end(claim, known, NOT_KEPT, lost)
        owner.running.discard(claim.names.id)

    async def _learn(self, names: Names, call: ValidCall, found: Outcome) -> None:
        """Write what ``verify=`` found once the call was cut off by a time limit around this stage."""
        kept = write_outcome(found, call) if type(found) is Success else None

        async def write() -> None:
            _, intent = await self._records.read(names.intent)
            if names.id in intent.get("lost", {}) and names.id not in intent["open"]:  # else it runs again, or is told
                await self._records.decide(names.id, names.intent, intent, kept, "verify")

        await self._write_or_later(write)

    async def _keep_up(self) -> None:
        """At each renewal of the lease."""
        await self._flush()
        if timing.monotonic() >= self._search_at:
            with suppress(StoreError):  # then at the next one
                await bury_claims(self._records)
                self._search_at = timing.monotonic() + max(self.keep, _SEARCH)

    async def _flush(self) -> None:
        """Write what could not be written. None of them waits for another, and each is written by one caller."""
        late: list[Callable[[], Awaitable[object]]] = []
        with suppress(IndexError):  # another thread may take some as well
            while True:
                late.append(self._late.pop(0))
        if late:
            async with anyio.create_task_group() as tasks:
                for write in late:
                    tasks.start_soon(self._write_or_later, write)

    async def _write_or_later(self, write: Callable[[], Awaitable[object]]) -> None:
        written = False
        try:
            written = await _is_written(write())
        finally:
            if not written:
                self._late.append(write)

    async def _arrive(self, call: ValidCall, names: Names, before: Names | None, owner: Owner) -> Claim | Outcome:
        """The right to run, or the answer in place of it.

        Args:
            call: The call.
            names: Its names.
            before: Its names in the release before. None: no such row is left.
            owner: Who would run it.

        Raises:
            StoreError: The store gave no answer.
        """
        own_key = call.idempotency_key or (make_uuid() if call.tool.effect == "keyed" else "")
        new: Delivery = {
            "v": VERSION,
            "state": "begun",
            "owner": owner.name,
            "intent": names.intent,
            "key": own_key,
            "tool": call.tool.name,
            "at": timing.wall_time(),
            "runs": 1,
        }
        if before is None and (claim := await self._begin(call, owner, names, new, _NOTHING)) is not None:
            return claim  # most calls are the first of their kind
        first, until = names, timing.monotonic() + self.max_wait
        for tried in range(_TRIES):
            names = await self._records.choose(first, before)
            seen = await self._records.look(names)
            kept, mine = seen.delivery, {**new, "intent": names.intent}
            if kept:
                mine |= {"v": kept.get("v", 1), "key": kept["key"], "at": kept["at"], "runs": kept["runs"] + 1}
            answer = await self._decide(call, names, seen, mine, until, tried)
            if isinstance(answer, str):
                mine["key"] = answer or mine["key"]
                if (claim := await self._begin(call, owner, names, mine, seen)) is not None:
                    return claim
            elif answer is not None:
                return answer
        return _away(call.tool.name, "busy")

    async def _decide(
        self, call: ValidCall, names: Names, seen: Seen, mine: Delivery, until: float, tried: int
    ) -> Outcome | str | None:
        """The answer to a call; or the key with which its body runs, "": its own. None: look again.

        Args:
            call: The call.
            names: Its names.
            seen: What is known of it.
            mine: Its record, if it runs.
            until: When it has waited long enough, by ``timing.monotonic``.
            tried: How often this was asked before.
        """
        effect, kept = call.tool.effect, seen.delivery
        for met in seen.met:
            is_own = met.id == names.id
            step = decide(met.arrives, effect, is_equal=met.is_equal)
            if step == "wait":
                if timing.monotonic() >= until:
                    return _away(call.tool.name, _STILL_RUNS)
                await self._flush()  # perhaps of a claim that could not be withdrawn at once
                await self._wait(call, names.id, min(_FIRST_POLL * 1.5**tried, _LAST_POLL))
                return None
            if step == "answer":
                return self._mark(call, read_outcome(kept["outcome"], call.tool), kept["done"])
            if step == "run":
                continue
            if met.known == "lift" and not is_own and await self._records.has_changed(names, met.at):
                await self._records.lift(met.id, names.intent, seen.intent[1])
                return None
            if step == "run with its key":
                return met.key
            # One that is not strictly equal cannot stand for the lost call, whose key and answer are not its own.
            found = await ask_verify(call, call, met.key) if met.is_equal else None
            step = decide(met.arrives, effect, is_equal=met.is_equal, found=landed_of(found))
            if step == "refuse":
                return self._mark(call, _unknown(call), kept.get("done")) if is_own else _unknown(call)
            outcome = write_outcome(cast("Outcome", found), call) if step == "answer" else None
            also = [] if outcome is None or is_own else self._records.answer(names, mine, seen.entry, outcome)
            version = seen.entry.version if is_own and seen.entry is not None else None
            decided = await self._records.decide(
                met.id, names.intent, seen.intent[1], outcome, "verify", also, version=version
            )
            return self._mark(call, cast("Outcome", found)) if decided and step == "answer" else None
        return ""

    async def _find_success(self, call: ValidCall, names: Names, before: Names | None) -> Outcome | None:
        """The success of an equal call of an earlier reply; None: there was none.

        OutcomeUnknown, if the release before kept one: its digest does not say whether the two calls are equal.
        """
        for its in (names,) if before is None else (names, before):
            _, done = await self._records.read(its.succeeded)  # "": nothing is found
            if done and done["id"] != its.id and not (call.reply and done["reply"] == call.reply):
                outcome = read_outcome(done["outcome"], call.tool) if its is names else _unknown(call)
                return self._mark(call, outcome, done["done"])
        return None

    async def _begin(self, call: ValidCall, owner: Owner, names: Names, delivery: Delivery, seen: Seen) -> Claim | None:
        """Claim it. A task that is cancelled takes it back: a claim without an end would look like a lost body."""
        if names.id in owner.running:  # a twin in this process
            return None
        owner.running.add(names.id)  # before others can see the claim, and until none is left
        claim: Claim | None = None
        maybe_written = False
        try:
            claim = await self._records.begin(call, owner, names, delivery, seen)
            return claim
        except StoreError as exc:
            maybe_written = exc.maybe_written
            raise
        except BaseException:  # cancelled
            maybe_written = True
            raise
        finally:
            if maybe_written:
                await self._withdraw(names, owner)
            elif claim is None:
                owner.running.discard(names.id)

    async def _withdraw(self, names: Names, owner: Owner) -> None:
        """Take back a claim that was perhaps written, or later; until then it counts as one that runs."""

        async def withdraw() -> None:
            await self._records.withdraw(names, owner)
            owner.running.discard(names.id)

        with anyio.move_on_after(_CLOSING, shield=True):
            await self._write_or_later(withdraw)

    async def _wait(self, call: ValidCall, id_: str, seconds: float) -> None:
        """Wait until a delivery ends here, or for some seconds where it does not run here."""
        flight = self._awaited.setdefault(id_, Flight(call))
        if id_ in self._inside:  # asked after the line before, so its end finds the flight
            with anyio.move_on_after(1):
                await flight.wait()
        else:
            self._land(id_, None)
            await timing.sleep(seconds)

    def _land(self, id_: str, outcome: Outcome | None) -> None:
        flight = self._awaited.pop(id_, None)
        if flight is not None:
            flight.end(outcome)

    def _mark(self, call: ValidCall, outcome: Outcome, done: float | None = None) -> Outcome:
        if call.report is not None:
            call.report.replayed = True
            ago = "" if done is None else f", {max(0.0, timing.wall_time() - done):.3g} s ago"
            call.report.note(self, f"replayed: it ended before{ago}")
        return outcome

    # For a person, or a program

    async def undecided(self) -> list[Undecided]:
        """The calls that may have taken effect, oldest first. The store must be open.

        Raises:
            StoreError: The store gave no answer.
        """
        return await find_undecided(self.store)

    async def show(self, id_: str, /) -> dict[str, Any]:
        """The record of a delivery, as JSON; ``{}``: none. Arguments are never kept.

        Raises:
            StoreError: The store gave no answer.
        """
        found = await self.store.get(f"d/{id_}")
        return {} if found is None else check_version(json.loads(found.value))

    async def resolve(self, id_: str, /, *, landed: bool, value: object = None, by: str = "") -> bool:
        """Say what became of a call that may have taken effect.

        Args:
            id_: Its id, see `undecided`.
            landed: Whether it took effect. False: an equal call may run, and this very one as well.
            value: Its result, for the answer to the same delivery: JSON. Default None.
            by: Who says so, for the record. Default "": not said.

        Returns:
            False: there is no such call, it still runs, or it is decided already.
        """
        for _ in range(_TRIES):
            intent = await self._records.find_intent(id_)
            if not intent:
                return False
            _, state = await self._records.read(intent)
            if id_ in state.get("open", {}) and await lives(self.store, state["open"][id_][0], id_):
                return False
            outcome = {"v": json.loads(json.dumps(value))} if landed else None
            if await self._records.decide(id_, intent, state, outcome, by):
                return True
        return False


async def _is_written(written: Awaitable[object]) -> bool:
    try:
        await written
    except StoreError:
        return False
    except Exception:  # of a store of somebody's own: what it raises must not end the call, nor keep others waiting
        _logger.warning("A store of a ledger raised what is no StoreError", exc_info=True)
        return False
    return True


def _is_left_alone(call: ValidCall) -> bool:
    """Whether nothing is kept of a call: it changes nothing, or leaves that to the calls that it makes."""
    return call.tool.effect == "read" or call.tool.composite or remark_on_plan(call)


def _read_known(guards: Guards, outcome: Outcome | None) -> Known:
    """The end of the effect. The guard of the call knows more of it than the outcome: whether a body began at all."""
    if type(outcome) is Success:
        return "yes"
    effect = guards.effect
    if effect is None or not effect.undecided:
        return "no"
    if outcome is None:
        return "lost"
    liftable = read_end(effect, cast("Any", outcome).failure() if type(outcome) is Failure else None)
    return "told" if liftable is None else "lift" if liftable else "lost"


def _unknown(call: ValidCall) -> Outcome:
    return Failure(OutcomeUnknown(Transient(landed="maybe"), call.tool.verify_with))


def _away(tool: str, reason: str) -> Outcome:
    return Failure(Unavailable(tool, reason))
