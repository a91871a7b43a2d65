"""Ledger: a tool that changes something runs once for each delivery, across processes, restarts and machines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
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
from ..engine.guards import Guard, Guards
from ..once.in_process import Flight, ask_verify, read_end, settle_lost
from ..once.kept_outcomes import read_outcome, write_outcome
from ..once.ledger_records import Claim, Delivery, Intent, Known, Names, Records, read_lost, read_open
from ..once.owners import Owner, lives
from ..once.row_versions import VERSION, NewerRowError, read_mark
from ..policies.plan import remark_on_plan
from ..privacy import get_logger
from ..stores import Entry, Memory, Store, StoreError

_TRIES = 1000  # of a claim that others keep changing
_LONGEST_SECRET = 64  # bytes, as of a key of BLAKE2b
_FIRST_POLL, _LAST_POLL = 0.02, 0.5  # seconds
_CLOSING = 5.0  # seconds for the end of a call that was cancelled
_UNDECIDED = ("lift", "lost")
_logger = get_logger()


@attrs.define(eq=False)
class _Lease(Guard):
    """Refuses a body whose owner may be taken for dead by now. Asked right before the body, in each attempt."""

    counts_bodies: ClassVar[bool] = True  # else it is asked only while a tool is closed

    owner: Owner
    tool: str
    ended: bool = False

    def refuse(self, call: Any) -> Outcome | None:  # noqa: ARG002
        """Unavailable once the lease is too old; NotExecuted once it is written down how the call ended."""
        if self.ended:
            return Failure(NotExecuted("the call has been answered"))
        return None if self.owner.may_begin else _away(self.tool, "the lease of this process ended")


@attrs.frozen
class Undecided:
    """A call that may have taken effect.

    Attributes:
        id: For `Ledger.resolve`.
        tool: The name of its tool.
        key: The idempotency key of its body; "": it had none.
        principal: Who asked.
        conversation: Where.
        at: When it began, in seconds since the epoch.
    """

    id: str
    tool: str
    key: str
    principal: str
    conversation: str
    at: float


@attrs.define(eq=False)
class Ledger:
    """A middleware that keeps in a store what began and how it ended, for tools that are not ``read``.

    The same delivery again (principal, conversation, reply, call id, tool, arguments as written) waits for its answer
    or gets it again, marked as replayed. While an equal call may have taken effect, a mutating tool is not run: its
    ``verify=`` is asked, and else the answer is `OutcomeUnknown`; a keyed one runs with the key of that call. After a
    known end nothing is left, so two equal payments both run.

    Without the store nothing begins: such a call is `Unavailable`, and reads go on.

    Args:
        store: Where, see `toolcall_pipeline.stores`. The pipeline opens and closes it. Default: the memory of this
            process.
        secret: The key of the digests, at most 64 bytes: without it, who reads the store could guess short arguments.
            Default ``b""``: no key.
        keep: Seconds for which an answer is kept. Default: 7 days.
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
    _flights: dict[str, Flight] = attrs.field(init=False, factory=dict[str, Flight], repr=False)
    _late: list[Callable[[], Awaitable[object]]] = attrs.field(init=False, factory=list[Any], repr=False)

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
        owner = Owner(self.store, self.lease, self._flush)
        await owner.open()
        self._owner = owner
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            with anyio.move_on_after(_CLOSING):
                while not await _is_written(self._flush):  # noqa: ASYNC110  # a store sends no event when it is back
                    await anyio.sleep(_LAST_POLL)
            if self._late:
                _logger.warning("Ends of calls that are not in the ledger, and count as lost: %d", len(self._late))
            await owner.close()

    def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Awaitable[Outcome]:
        """The inside's outcome, or the kept one of a delivery that came before."""
        tool = call.tool
        if tool.effect == "read" or tool.composite or remark_on_plan(call):
            return call_next(call)
        return self._run(call, call_next)

    async def _run(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        if self._owner is None and self.opens_itself:
            self._owner = Owner(self.store, self.lease, self._flush)
        owner = self._owner
        if owner is None or not owner.may_begin:
            return self._refuse(call, "the ledger is not open in this process, or its lease ended")
        names = self._name(call)
        try:
            await self._flush()
            if self._has_old_rows is None:
                self._has_old_rows = await read_mark(self.store)
            before = names.as_before(call, self.secret) if self._has_old_rows else None
            claim = await self._find_success(call, names, before) or await self._claim(call, names, before, owner)
        except (SetupError, NewerRowError) as exc:
            return self._refuse(call, str(exc))
        except StoreError as exc:
            return self._refuse(call, "the ledger cannot be reached", exc)
        if not isinstance(claim, Claim):
            return claim
        names = claim.names
        call = call.with_idempotency_key(claim.key) if claim.key != call.idempotency_key else call
        lease = _Lease(owner, call.tool.name)
        guards = Guards.of(lease, outer=call.guards)
        flight = self._flights[names.id] = Flight(call)
        outcome: Outcome | None = None
        try:
            inside = call.under(call.report, guards)
            outcome = await call_next(inside)
            if type(outcome) is not Success and guards.effect is not None:
                outcome = await settle_lost(inside, guards.effect, outcome)
            return outcome
        finally:
            if type(outcome) is not Success:
                with cast("Any", guards.lock):
                    lease.ended = True
            await self._end(claim, call, guards, outcome, owner)
            self._flights.pop(names.id, None)
            flight.end(outcome)

    def _name(self, call: ValidCall) -> Names:
        """The keys of a call."""
        return Names.of(call, self.secret)

    def _describe(self, call: ValidCall) -> Delivery:
        """Describe a delivery, beside its state."""
        return {"tool": call.tool.name, "at": timing.wall_time(), "runs": 1}

    def _refuse(self, call: ValidCall, reason: str, cause: StoreError | None = None) -> Outcome:
        """The answer to a call that does not begin, for it could not be kept that it does."""
        del cause
        return _away(call.tool.name, reason)

    async def _end(self, claim: Claim, call: ValidCall, guards: Guards, outcome: Outcome | None, owner: Owner) -> None:
        """Write how it ended, also in a task that is cancelled; if the store gives no answer, later."""
        known = _read_known(guards, outcome)
        if known in _UNDECIDED and (outcome is None or call.tool.effect == "mutating"):
            outcome = _unknown(call)  # for those who ask again, whatever was said first
        error: object = cast("Any", outcome).failure() if type(outcome) is Failure else None
        is_kept = outcome is not None and not (known == "no" and isinstance(error, (NotExecuted, Unavailable)))
        kept = write_outcome(cast("Outcome", outcome), call) if is_kept else None
        success: Delivery | None = None
        if self.repeats == "replay" and known == "yes" and kept is not None and claim.names.succeeded:
            success = {"id": claim.names.id, "reply": call.reply, "outcome": kept, "done": timing.wall_time()}

        async def write() -> None:
            await self._records.end(claim, known, kept, success)
            owner.running.discard(claim.names.id)

        written = False
        try:
            written = await _is_written(write)
        except BaseException:  # cancelled, and nothing is written twice: the second time the versions differ
            with anyio.move_on_after(_CLOSING, shield=True):
                written = await _is_written(write)
            raise
        finally:
            if not written:
                self._late.append(write)
                _logger.warning("Tool %.200r: its end is not in the ledger yet", call.tool.name)

    async def _flush(self) -> None:
        """Write what could not be written, each by one caller: a claim may come again once it is withdrawn."""
        while self._late:
            write, written = self._late.pop(0), False
            try:
                await write()
                written = True
            finally:
                if not written:
                    self._late.insert(0, write)

    async def _claim(self, call: ValidCall, names: Names, before: Names | None, owner: Owner) -> Claim | Outcome:
        """The right to run, or the answer in place of it.

        Args:
            call: The call.
            names: Its names.
            before: Its names in the release before. None: no such row is left.
            owner: Who would run it.

        Raises:
            StoreError: The store gave no answer.
        """
        until, poll = timing.monotonic() + self.max_wait, _FIRST_POLL
        key = call.idempotency_key or (make_uuid() if call.tool.effect == "keyed" else "")
        new: Delivery = {"v": VERSION, "state": "begun", "owner": owner.name, "intent": names.intent, "key": key}
        new |= self._describe(call)
        claim: Claim | None = None
        if before is None:  # most calls are the first of their kind
            claim = await self._begin(call, owner, names, new, None, (None, {}), ())
        first = names
        for _ in range(_TRIES):
            if claim is not None:
                return claim
            names = await self._records.choose(first, before)
            entry, kept = await self._records.read(names.delivery)
            mine = {**new, "intent": names.intent}
            if entry is not None:
                if kept["state"] == "begun" and await lives(self.store, kept["owner"], names.id):
                    if timing.monotonic() >= until:
                        return _away(call.tool.name, "this very call still runs; its result is not known yet")
                    await self._flush()  # perhaps of a claim that could not be withdrawn at once
                    await self._wait(names.id, poll)
                    poll = min(poll * 1.5, _LAST_POLL)
                    continue
                answer = await self._come_again(call, names, entry, kept)
                if answer is not None:
                    return answer
                mine |= {"v": kept.get("v", 1), "key": kept["key"], "at": kept["at"], "runs": kept["runs"] + 1}
            seen = await self._records.read(names.intent)
            version = None if entry is None else entry.version
            answer, died, key = await self._ask_others(call, names, seen[1], mine, version)
            if answer is not None:
                return answer
            if died is not None:
                mine["key"] = mine["key"] if entry is not None else key or mine["key"]
                claim = await self._begin(call, owner, names, mine, version, seen, died)
        return _away(call.tool.name, "busy")

    async def _find_success(self, call: ValidCall, names: Names, before: Names | None) -> Outcome | None:
        """The success of an equal call of an earlier reply; None: there was none.

        OutcomeUnknown, if the release before kept one: its digest does not say whether the two calls are equal.
        """
        if self.repeats != "replay":
            return None
        for its in (names,) if before is None else (names, before):
            _, done = await self._records.read(its.succeeded)  # "": nothing is found
            if done and done["id"] != its.id and not (call.reply and done["reply"] == call.reply):
                outcome = read_outcome(done["outcome"], call.tool) if its is names else _unknown(call)
                return self._mark(call, outcome, done["done"])
        return None

    async def _begin(  # one claim
        self,
        call: ValidCall,
        owner: Owner,
        names: Names,
        delivery: Delivery,
        expect: int | None,
        seen: tuple[Entry | None, Intent],
        died: tuple[str, ...],
    ) -> Claim | None:
        """Claim it. A task that is cancelled takes it back: a claim without an end would look like a lost body."""
        if names.id in owner.running:  # a twin in this process
            return None
        owner.running.add(names.id)  # before others can see the claim, and until none is left
        claim: Claim | None = None
        maybe_written = False
        try:
            claim = await self._records.begin(call, owner, names, delivery, expect, seen, died)
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

        withdrawn = False
        try:
            with anyio.move_on_after(_CLOSING, shield=True):
                withdrawn = await _is_written(withdraw)
        finally:
            if not withdrawn:
                self._late.append(withdraw)

    async def _come_again(self, call: ValidCall, names: Names, entry: Entry, kept: Delivery) -> Outcome | None:
        """The answer of a delivery that does not run any more; None: it may run again, if the store agrees."""
        known: Known = kept.get("known", "lost")
        if kept["state"] == "ended" and known not in _UNDECIDED:
            return self._mark(call, read_outcome(kept["outcome"], call.tool), kept["done"])
        if call.tool.effect != "mutating":
            return None
        found = await ask_verify(call, call, kept["key"])
        if type(found) is Failure:
            return None  # it did not happen, and never will
        if found is None and kept["state"] == "ended":
            return self._mark(call, _unknown(call), kept["done"])
        outcome = _unknown(call) if found is None else found
        known = "lost" if found is None else "yes"
        if not await self._records.settle(names, entry, kept, known, write_outcome(outcome, call)):
            return None  # it has changed, and a claim by this version will fail
        return self._mark(call, outcome)

    async def _ask_others(
        self, call: ValidCall, names: Names, intent: Intent, mine: Delivery, version: int | None
    ) -> tuple[Outcome | None, tuple[str, ...] | None, str]:
        """Ask equal calls: the answer, if the call must not run; those that died; and the key that it has to take.

        None in place of those that died: the intent has changed, and must be read again.
        """
        lost = {id_: read_lost(kept) for id_, kept in intent.get("lost", {}).items()}
        died: list[str] = []
        for id_, kept in intent.get("open", {}).items():
            owner, key, strict = read_open(kept)
            if not await lives(self.store, owner, id_):
                lost[id_] = key, "lost", intent["at"], strict
                died.append(id_)
        if call.tool.effect != "keyed":  # it has been asked what became of it
            lost.pop(names.id, None)
        for id_, (key, known, at, strict) in sorted(lost.items(), key=lambda each: each[1][3] != names.strict):
            is_equal = id_ == names.id or (bool(strict) and strict == names.strict)
            if call.tool.effect == "idempotent":
                break
            if known == "lift" and await self._records.has_changed(names, at):
                await self._records.lift(id_, names.intent, intent)
                return None, None, ""
            if call.tool.effect == "keyed" and is_equal:
                return None, tuple(died), key
            # One that is not strictly equal cannot stand for the lost call, whose key and answer are not its own.
            found = await ask_verify(call, call, key) if is_equal else None
            if found is None:
                return _unknown(call), None, ""
            outcome = write_outcome(found, call) if type(found) is Success else None
            also = [] if outcome is None else self._records.answer(names, mine, version, outcome)
            decided = await self._records.decide(id_, names.intent, intent, outcome, "verify", also)
            return (self._mark(call, found) if decided and outcome is not None else None), None, ""
        return None, tuple(died), ""

    async def _wait(self, id_: str, seconds: float) -> None:
        flight = self._flights.get(id_)
        if flight is None:
            await timing.sleep(seconds)
        else:
            with anyio.move_on_after(1):
                await flight.wait()

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
        found: list[Undecided] = []
        for _, intent in await self._records.list("i/"):
            tool, about = intent["tool"], (intent["principal"], intent["conversation"])
            for id_, kept in intent["lost"].items():
                key, _, at, _ = read_lost(kept)
                found.append(Undecided(id_, tool, key, *about, at))
            for id_, kept in intent["open"].items():
                owner, key, _ = read_open(kept)
                if not await lives(self.store, owner, id_):
                    found.append(Undecided(id_, tool, key, *about, intent["at"]))
        return sorted(found, key=lambda each: each.at)

    async def show(self, id_: str, /) -> dict[str, Any]:
        """The record of a delivery, as JSON; ``{}``: none. Arguments are never kept.

        Raises:
            StoreError: The store gave no answer.
        """
        _, kept = await self._records.read(f"d/{id_}")
        return kept

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
            if await self._records.decide(id_, intent, state, {"v": value} if landed else None, by):
                return True
        return False


async def _is_written(write: Callable[[], Awaitable[object]]) -> bool:
    try:
        await write()
    except StoreError:
        return False
    return True


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
