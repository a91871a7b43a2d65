"""Uses: runs what was approved, once. The record of the approval says so, and no ledger is asked.

==================================  ========================================================================
what is written before the body     begun, by whom, with which key. Who comes second waits for the end
a success, or a body that may have  ended, with this answer, which all get who bring the call again
taken effect
nothing landed                      approved again, until it expires; also a lost keyed or idempotent body
the process died                    a read, an idempotent and a keyed call (with its key) may begin again until
                                    it expires; of a mutating one only ``verify=`` can say what became of it
==================================  ========================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from os import getpid
from typing import Any, ClassVar, TypeAlias, cast

import anyio
import attrs
from returns.result import Failure, Success

from ..base import timing
from ..engine.call import Outcome, ValidCall, make_uuid
from ..engine.errors import NotExecuted, OutcomeUnknown, TimedOut, Transient, Unavailable
from ..engine.guards import Guard, Guards
from ..once.in_process import ask_verify, settle_lost
from ..once.kept_outcomes import read_outcome, write_outcome
from ..once.owners import Owner, lives
from ..privacy import get_logger
from ..stores import Store, StoreError
from .approval_requests import Kept, Requests, Row, is_over

_LEASE = 15.0  # seconds after which an owner on another host that renews nothing counts as dead
_CLOSING = 5.0  # seconds for the end of a call that was cancelled
_TRIES = 1000  # of a record that others keep changing
_LOST = (OutcomeUnknown, TimedOut, Transient, Unavailable)
_Write: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
_logger = get_logger()


@attrs.define(eq=False)
class _Use(Guard):
    """Refuses a body whose owner may be taken for dead by now, or whose end is written."""

    counts_bodies: ClassVar[bool] = True

    owner: Owner
    tool: str
    ended: bool = False

    def refuse(self, call: Any) -> Outcome | None:  # noqa: ARG002
        if self.ended:
            return Failure(NotExecuted("the call has been answered"))
        return None if self.owner.may_begin else _refuse(self.tool)


class Uses:
    """The uses of approvals by one process. Other processes see by its lease that it lives."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._store: Store = requests.store
        self._owner: Owner | None = None
        self._late: dict[str, _Write] = {}  # ends that could not be written, by approval

    async def open(self) -> None:
        """Take the lease of this process, or later, where the store is away."""
        owner = Owner(self._store, _LEASE, self.flush)
        await owner.open()
        self._owner = owner

    async def close(self) -> None:
        """Write what waits, and give the lease back."""
        owner, self._owner = self._owner, None
        if owner is not None:
            with anyio.move_on_after(_CLOSING):
                await self.flush()
            if self._late:
                _logger.warning("Ends of approved calls that are not kept, and count as lost: %d", len(self._late))
            await owner.close()

    async def flush(self) -> None:
        """Write the ends that could not be written; those that still cannot wait on."""
        for id_, write in list(self._late.items()):
            try:
                await write()
            except StoreError:
                return
            self._late.pop(id_, None)

    async def is_running(self, row: Row) -> bool:
        """Whether the owner of a call that began may still run it."""
        return bool(row["owner"]) and await lives(self._store, row["owner"], row["id"])

    async def learn(self, call: ValidCall, kept: Kept, *, is_resumed: bool) -> Outcome | None:
        """The end of a call whose owner died; None: the record says it by now, or it is approved again."""
        row = kept.row
        now = await self._requests.find(row["id"])
        if now is None or now.version != kept.version:
            return None  # it has ended since it was read, and then its owner was asked for
        if row["owner"] and call.tool.effect != "mutating" and (call.tool.effect == "read" or not is_over(row)):
            await self._requests.write(kept, {**row, "state": "approved"})
            return None
        found = await ask_verify(call, call, row.get("key", ""))
        if found is None:  # it stays so, for another time the tool may know more
            if not is_resumed:
                await self.note_given(row["id"])
            return _unknown(call)
        state = _end_with(call, found) if type(found) is Success else {"state": "approved"}
        await self._requests.write(kept, {**row, **state})
        return None

    async def run(self, call: ValidCall, call_next: Any, kept: Kept, *, is_resumed: bool) -> Outcome | None:
        """Run an approved call; None: another one was first.

        Raises:
            StoreError: The store gave no answer, and nothing began.
        """
        owner = self._owner
        if owner is None or owner.pid != getpid():
            owner = self._owner = Owner(self._store, _LEASE, self.flush)
        if not owner.may_begin:
            return _refuse(call.tool.name)
        row, tool = kept.row, call.tool
        key = row.get("key") or call.idempotency_key or (make_uuid() if tool.effect == "keyed" else "")
        begun = {**row, "state": "begun", "owner": owner.name, "key": key, "runs": row.get("runs", 0) + 1}
        call = call.with_idempotency_key(key) if key != call.idempotency_key else call
        use = _Use(owner, tool.name)
        guards = Guards.of(use, outer=call.guards)
        if row["id"] in owner.running:
            return None
        owner.running.add(row["id"])  # before others can see that it began, and until they can see how it ended
        outcome: Outcome | None = None
        written: Kept | None = Kept(begun, None)  # without a version: it is not known whether it was written
        try:
            written = await self._requests.write(kept, begun)
            if written is None:
                return None
            inside = call.under(call.report, guards)
            outcome = cast("Outcome", await call_next(inside))
            if type(outcome) is not Success and guards.effect is not None:
                outcome = await settle_lost(inside, guards.effect, outcome)
            return outcome
        finally:
            if written is None:
                owner.running.discard(row["id"])
            else:
                with cast("Any", guards.lock):
                    use.ended = type(outcome) is not Success
                end = _describe_end(call, guards, outcome)
                end["collected"] = end["state"] == "ended" and outcome is not None and not is_resumed
                await self._end(written, end, owner)

    async def give(self, call: ValidCall, row: Row, *, is_resumed: bool) -> Outcome:
        """The answer of a call that ended; OutcomeUnknown where it could not be kept."""
        if call.report is not None:
            call.report.replayed = True
        if not is_resumed:
            await self.note_given(row["id"])
        return _unknown(call) if row["outcome"] is None else read_outcome(row["outcome"], call.tool)

    async def note_given(self, id_: str) -> None:
        """Note that the model knows what became of a call that began: the next such call is another wish."""
        try:
            kept = await self._requests.find(id_)
            if kept is not None and kept.row["state"] in ("begun", "ended") and not kept.row.get("collected"):
                await self._requests.write(kept, {**kept.row, "collected": True})
        except StoreError:  # it has run: its outcome counts, and a repetition gets the same one again
            _logger.warning("Approval %s: that its answer was given is not noted", id_)

    async def _end(self, began: Kept, end: Row, owner: Owner) -> None:
        """Write how a call ended, also in a task that is cancelled; if the store gives no answer, later."""
        begun = began.row
        id_ = begun["id"]

        async def write() -> None:
            kept: Kept | None = began
            for _ in range(_TRIES):
                if kept is None or any(kept.row.get(name) != begun[name] for name in ("state", "owner", "runs")):
                    break  # it did not begin, or is written
                if kept.version is not None and await self._requests.write(kept, {**kept.row, **end}):
                    break
                kept = await self._requests.find(id_)  # another call has joined it, or it is not known what was written
            owner.running.discard(id_)

        self._late[id_] = write
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING):
            try:
                await write()
                self._late.pop(id_, None)
            except StoreError:
                pass
        if id_ in self._late:
            _logger.warning("Tool %.200r: the end of an approved call is not kept yet", begun["tool"])


def _describe_end(call: ValidCall, guards: Guards, outcome: Outcome | None) -> Row:
    """What a record says from now on; None in place of an outcome: the call was cancelled, or a stage raised."""
    if type(outcome) is Success:
        return _end_with(call, outcome)
    error: Any = None if outcome is None else cast("Any", outcome).failure()
    is_lost = outcome is None or (isinstance(error, _LOST) and getattr(error, "landed", "maybe") != "yes")
    if guards.effect is None or not guards.effect.undecided or (is_lost and call.tool.effect != "mutating"):
        return {"state": "approved"}
    return _end_with(call, _unknown(call) if is_lost else cast("Outcome", outcome))


def _end_with(call: ValidCall, outcome: Outcome) -> Row:
    try:
        answer: Any = write_outcome(outcome, call)
        json.dumps(answer)
    except (TypeError, ValueError, RecursionError):  # such as an integer of too many digits
        answer = None
    return {"state": "ended", "outcome": answer, "done": timing.wall_time()}


def _unknown(call: ValidCall) -> Outcome:
    return Failure(OutcomeUnknown(Transient(landed="maybe"), call.tool.verify_with))


def _refuse(tool: str) -> Outcome:
    return Failure(Unavailable(tool, "approvals are not open in this process, or its lease ended"))
