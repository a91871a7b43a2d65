"""Audit: writes down each call, the decisions on it and its answer, in rows that show each change to them."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

import anyio
import attrs
from returns.result import Failure, Success

from ..audit import AuditLog, Row, with_decisions
from ..base import timing
from ..base.event_loops import get_event_loop
from ..base.options import is_type, refuse
from ..engine.call import Call, Outcome, ValidCall, make_uuid
from ..engine.compose import Handler, Placement
from ..engine.errors import Unavailable
from ..engine.guards import Guard, Guards
from ..engine.report.content import mask_outcome
from ..messages import render
from ..once import NotPlainError, digest
from ..policies.facts import show_arguments
from ..privacy import find_guard, get_logger, make_mask, redact_arguments
from ..stores import Memory, Store, StoreError

C = TypeVar("C", bound=Call)
_LONGEST = 30.0  # seconds that a call waits for its first row, of a store that says nothing at all
_CLOSING = 5.0  # seconds for the last row of a call, also of one that was cancelled
_MOST_LATE = 10_000  # rows that wait for a store that is away
_SHOWN = 10_000  # characters of an answer
_logger = get_logger()


@attrs.define(eq=False)
class _Witness(Guard):
    """Notes the bodies of one call, right before they begin."""

    counts_bodies: ClassVar[bool] = True
    bodies: int = 0
    last: Call | None = None

    def begin(self, call: Call) -> None:
        """A body begins."""
        self.bodies += 1
        self.last = call.under(None, None)  # without the guards, which hold this one


@attrs.define(eq=False)
class Audit:
    """A middleware that writes what was asked, by whom, what decided, what ran and what it answered.

    A call of a tool that changes something has two rows: ``asked``, before anything inside begins, and ``ended``. A
    process that is killed in between leaves the first one. A call of a read has the second one alone. Rows hold
    digests of arguments and answers; secrets that a tool declares are masked before. They are read, exported and
    verified by `AuditLog` and ``toolcall audit``.

    Args:
        store: Where, see `toolcall_pipeline.stores`. The pipeline opens and closes it.
        secret: The key of the digests, at most 64 bytes: without it, who can write to the store can write another
            chain, and guess short arguments. Default ``b""``: no key.
        content: Whether rows hold the arguments and the text of the answer as well, with declared secrets masked.
            Default False.
        when_away: While the store gives no answer, "refuse" refuses each call that would change something, and "pass"
            lets it run. Rows are written once the store answers again. Default "refuse".

    Raises:
        SetupError: An option is out of its range, or of another type.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="audit",
        reason="outside of all that decides: its row has each decision",
    )

    store: Store
    secret: bytes = attrs.field(default=b"", kw_only=True, repr=False)
    content: bool = attrs.field(default=False, validator=is_type(bool), kw_only=True)
    when_away: Literal["refuse", "pass"] = attrs.field(default="refuse", kw_only=True)
    _log: AuditLog = attrs.field(init=False, repr=False)
    _late: list[Row] = attrs.field(init=False, factory=list[Row], repr=False)
    _lost: int = attrs.field(init=False, default=0, repr=False)  # rows for which there was no room
    _flushes: bool = attrs.field(init=False, default=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._log = AuditLog(self.store, self.secret)
        if self.when_away not in ("refuse", "pass"):
            refuse("Audit", "when_away", '"refuse" or "pass"', self.when_away)

    @property
    def opens_itself(self) -> bool:
        """Whether it works outside of ``async with pipeline``: with a store in memory."""
        return isinstance(self.store, Memory)

    @property
    def resources(self) -> tuple[Store, ...]:
        """The store, which is opened before this stage."""
        return (self.store,)

    async def __aenter__(self) -> Self:
        """Write a head, if there is none, so that a chain of which all was removed can be told from a new one."""
        with suppress(StoreError):
            await self._log.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write the rows that wait; say how many are lost if the store gives no answer."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING):
            await self._flush()
        if lost := len(self._late) + self._lost:
            _logger.error("%s rows are not in the audit: its store gives no answer", lost)

    async def __call__(self, call: C, call_next: Handler[C]) -> Outcome:
        """The inside's outcome; or Unavailable, for a call that cannot be written down before it runs."""
        tool: Any = getattr(call, "tool", None)
        row = self._describe(call, tool)
        changes = tool is None or tool.effect != "read"
        witness = _Witness()
        inner, decisions = with_decisions(call.under(call.report, Guards.of(witness, outer=call.guards)))
        outcome: Outcome | None = None
        refused = False
        try:
            if changes or len(self._late) >= _MOST_LATE:
                refused = not await self._write({"event": "asked", **row}, needed=changes)
            if refused:
                return Failure(Unavailable(call.name if tool is None else tool.name, "the audit cannot be reached"))
            outcome = await call_next(inner)
            return outcome
        finally:
            if not refused:
                ended = {"event": "ended", **row, "decisions": decisions, "bodies": witness.bodies}
                if isinstance(witness.last, ValidCall):
                    ran = self._digest(witness.last, tool)
                    ended |= {"ran": ran} if ran != row["arguments"] else {}
                # Of a composite tool the guards of its own call know the pipeline.
                last = call if witness.last is None or (tool is not None and tool.composite) else witness.last
                ended |= self._describe_end(last, tool, outcome)
                place = ""
                with anyio.CancelScope(shield=True):
                    place = await self._write(ended, needed=False)
                if call.report is not None and place:
                    call.report.note(self, place)

    async def _write(self, row: Row, *, needed: bool) -> str:
        """Append a row in a task of its own, which the cancellation of the call does not reach; see `_append`."""
        loop = get_event_loop()
        written, places = loop.make_signal(), list[str]()

        async def append() -> None:
            try:
                places.append(await self._append(row, needed=needed))
            finally:
                with suppress(RuntimeError):  # the loop is closed
                    loop.set(written)

        loop.start(append)
        await loop.wait(written, _LONGEST if needed else _CLOSING)
        return places[0] if places else ""

    async def _append(self, row: Row, *, needed: bool) -> str:
        """Append a row; "": it waits, or the call must not run."""
        row = {"at": timing.wall_time(), **row}
        try:
            await self._flush()
            return await self._log.append(row)
        except StoreError as exc:
            if needed and self.when_away == "refuse":
                return ""
            if not self._late:
                _logger.warning("Audit: the store gives no answer, so rows wait: %s", exc)
            if len(self._late) >= _MOST_LATE:
                self._lost += not needed
                return ""
            self._late.append({**row, "late": True})
            return "late" if needed else ""

    async def _flush(self) -> None:
        """Append the rows that wait. One that fails is the last that is tried again."""
        if self._flushes:
            return
        self._flushes = True
        try:
            while self._late:
                row = self._late.pop(0)
                written = False
                try:
                    await self._log.append(row)
                    written = True
                except StoreError:
                    return
                finally:
                    if not written:
                        self._late.append(row)
        finally:
            self._flushes = False

    def _describe(self, call: Call, tool: Any) -> Row:
        row: Row = {
            "id": make_uuid(),
            "principal": call.principal,
            "conversation": call.conversation,
            "call": call.id,
            "reply": call.reply,
            "tool": call.name if tool is None else tool.name,
            "effect": "" if tool is None else tool.effect,
            "arguments": self._digest(call, tool),
        }
        if self.content and isinstance(call, ValidCall) and not call.tool.composite:
            row["sent"] = _read_arguments(call, tool)
        return row

    def _digest(self, call: Call, tool: Any) -> str:
        """The digest of the arguments; "": their calls have rows of their own, or a secret may be in them."""
        if tool is None or tool.composite:
            return ""
        arguments: object = call.arguments
        if isinstance(call, ValidCall):
            arguments = _read_arguments(call, tool)
        elif (guard := find_guard(tool)) is not None:
            arguments = guard.redact_all(arguments)
        try:
            return digest(arguments, self.secret)
        except NotPlainError:
            return ""

    def _describe_end(self, call: Call, tool: Any, outcome: Outcome | None) -> Row:
        if outcome is None:
            return {"outcome": "cancelled"}
        mask = make_mask(call, getattr(call, "tool", tool))  # it may be found behind this stage
        text: str = render(outcome if mask is None else mask_outcome(outcome, mask))
        kind = "success" if type(outcome) is Success else str(cast("Any", outcome).failure().kind)
        row: Row = {"outcome": kind, "answer": digest(text, self.secret)}
        return {**row, "text": text[:_SHOWN]} if self.content else row


def _read_arguments(call: ValidCall, tool: Any) -> object:
    """The accepted JSON without declared secrets."""
    return redact_arguments(call, tool, show_arguments(call))
