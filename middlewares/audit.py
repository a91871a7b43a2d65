"""Audit: writes down each call, the decisions on it and its answer, in rows that show each change to them."""

from __future__ import annotations

from types import TracebackType
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

import anyio
import attrs
from returns.result import Failure, Success

from ..audit import AuditLog, Row, with_decisions
from ..base import timing
from ..base.options import is_type, refuse
from ..engine.call import Call, Outcome, ValidCall, make_uuid
from ..engine.compose import Handler, Placement
from ..engine.errors import Unavailable
from ..engine.guards import Guard, Guards
from ..identity import NotPlainError, digest
from ..messages import render
from ..policies.facts import make_plain_arguments
from ..privacy import find_guard, get_logger, make_mask
from ..stores import Memory, Store, StoreError

C = TypeVar("C", bound=Call)
_CLOSING = 5.0  # seconds for the last row of a call, also of one that was cancelled
_MOST_LATE = 10_000  # rows that wait for a store that is away
_SHOWN = 10_000  # characters of an answer
_logger = get_logger()


@attrs.define(eq=False)
class _Witness(Guard):
    """Notes the bodies of one call, right before they begin."""

    counts_bodies: ClassVar[bool] = True
    needs_params: ClassVar[bool] = False

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
        announces_body=True,
        kind="audit",
        reason="outside of all that decides: its row has each decision",
    )

    store: Store
    secret: bytes = attrs.field(default=b"", kw_only=True, repr=False)
    content: bool = attrs.field(default=False, validator=is_type(bool), kw_only=True)
    when_away: Literal["refuse", "pass"] = attrs.field(default="refuse", kw_only=True)
    _log: AuditLog = attrs.field(init=False, repr=False)
    _late: list[Row] = attrs.field(init=False, factory=list[Row], repr=False)

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
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write the rows that wait; say how many are lost if the store gives no answer."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING):
            await self._flush()
        if self._late:
            _logger.error("%s rows are not in the audit: its store gives no answer", len(self._late))

    async def __call__(self, call: C, call_next: Handler[C]) -> Outcome:
        """The inside's outcome; or Unavailable, for a call that cannot be written down before it runs."""
        tool: Any = getattr(call, "tool", None)
        row = self._describe(call, tool)
        changes = tool is None or tool.effect != "read"
        if (changes or len(self._late) >= _MOST_LATE) and not await self._append(
            {"event": "asked", **row}, needed=changes
        ):
            return Failure(Unavailable(call.name if tool is None else tool.name, "the audit cannot be reached"))
        witness = _Witness()
        inner, decisions = with_decisions(call.under(call.report, Guards.of(witness, outer=call.guards)))
        outcome: Outcome | None = None
        try:
            outcome = await call_next(inner)
            return outcome
        finally:
            ended = {"event": "ended", **row, "decisions": decisions, "bodies": witness.bodies}
            if isinstance(witness.last, ValidCall):
                ran = self._digest(witness.last, tool)
                ended |= {"ran": ran} if ran != row["arguments"] else {}
            ended |= self._describe_end(call if witness.last is None else witness.last, tool, outcome)
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING):
                place = await self._append(ended, needed=False)
                if call.report is not None and place:
                    call.report.note(self, place)

    async def _append(self, row: Row, *, needed: bool) -> str:
        """Append a row, after those that wait; "": it waits itself, or the call must not run."""
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
                return ""
            self._late.append(row)
            return "late" if needed else ""

    async def _flush(self) -> None:
        while self._late:
            row = self._late[0]
            await self._log.append({**row, "late": True})
            if self._late and self._late[0] is row:
                del self._late[0]

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
            arguments = guard.redact(arguments)
        try:
            return digest(arguments, self.secret)
        except NotPlainError:
            return ""

    def _describe_end(self, call: Call, tool: Any, outcome: Outcome | None) -> Row:
        if outcome is None:
            return {"outcome": "cancelled"}
        text: str = render(outcome)
        mask = make_mask(call, tool)
        if mask is not None:
            text = mask(text)
        kind = "success" if type(outcome) is Success else str(cast("Any", outcome).failure().kind)
        row: Row = {"outcome": kind, "answer": digest(text, self.secret)}
        return {**row, "text": text[:_SHOWN]} if self.content else row


def _read_arguments(call: ValidCall, tool: Any) -> object:
    """The arguments as the tool gets them, as JSON values, without declared secrets."""
    plain = make_plain_arguments(call)
    secrets = tool.parameters.secrets
    return plain if secrets is None else secrets.redact(plain)
