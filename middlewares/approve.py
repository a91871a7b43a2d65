"""Approve: holds a call back until a person has decided on it, and runs what was approved once."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from inspect import isawaitable
from types import TracebackType
from typing import Any, ClassVar, Self, TypeAlias, cast

import attrs
from returns.result import Failure, Success

from ..approvals import RESUMED, Approval, Approvals, Requests, name_request
from ..approvals.approval_requests import Row, is_settled, read_approval
from ..audit import note_decision
from ..base import timing
from ..base.foreign_values import FaultBarrier
from ..base.options import is_function, is_number, is_type, read_names, refuse
from ..engine.call import Call, Outcome, ValidCall
from ..engine.call_state import TURN
from ..engine.compose import Handler, Placement
from ..engine.errors import AwaitingApproval, Denied, NotExecuted, Repair, ResourceNotFound, Unavailable
from ..once import DELIVERY
from ..policies import RuleSet
from ..policies.facts import show_arguments
from ..policies.plan import judge_edit, remark_on_plan
from ..policies.rule_file import RuleFile
from ..privacy import approved, get_logger, make_mask, redact_arguments
from ..stores import Memory, Store, StoreError
from ..tools.tool_memory import ToolMemory

Needs: TypeAlias = Callable[[ValidCall], "bool | str | Awaitable[bool | str]"]
_CALLS = 100  # that join one request, and find it by their ids
_TRIES = 1000  # of a record that others keep changing
_FIRST_POLL, _LAST_POLL = 0.05, 1.0  # seconds
_logger = get_logger()


def _read_effects(given: Iterable[str]) -> frozenset[str]:
    return read_names("Approve", "effects", given, ("read", "idempotent", "keyed", "mutating"))


def _read_tools(given: Iterable[str]) -> frozenset[str]:
    return read_names("Approve", "tools", given)


@attrs.define(eq=False)
class Approve:
    """A middleware that asks a person before a call runs. No connection is held open meanwhile.

    A call that needs a decision is `AwaitingApproval`, with the id by which a person decides (`Approvals`). It is bound
    to principal, conversation, tool, validated arguments, the tool's schema and the version of the policy: any other
    call asks anew. The model's own repetition joins the call that waits; two equal calls in one reply are two. Once it
    is approved, ``pipeline.resume(id)`` or the model's repetition runs it, once, and both get its answer. It is single
    use: the next equal call asks anew. A rejected call is `Denied`, with the person's message.

    Of a tool with declared secrets no arguments are kept, so the model has to send the call again once it is approved.

    Args:
        store: Where calls and decisions are kept, see `toolcall_pipeline.stores`. The pipeline opens and closes it.
        needs: Called with each valid call. Returns whether a person has to decide, or the reason as a text; may be
            async. A `RuleSet` stands for its rules with the action ``approve``. Default None: none.
        effects: Effects of tools whose calls need a decision. Default: none.
        tools: Names of tools, or patterns, whose calls need a decision. Default: none.
        version: The version of ``needs``; with another one, what was approved before has to be asked for again. Default
            "": the version of a `RuleSet`.
        expires: Seconds for which a call waits, and for which an approval that was not used holds. Default 1 day.
        hold: Seconds for which the call itself waits for a decision before it answers. Default 0: it does not.
        notify: Called with each new `Approval`, such as to tell a chat; may be async. An exception of it is logged.
            Default None: nothing is called.

    Raises:
        SetupError: An option is out of its range or of another type, or none of ``needs``, ``effects`` and ``tools``
            says which calls need a decision.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="approve",
        tool_options=("tools.patterns", "needs"),
        reason="inside of validate: a person judges the call as it will run",
        holds_back="a call that waits for a person has not begun",
        decides=("awaiting_approval",),
        needs={"ledger": "an approval is one delivery of it, so that what was approved runs once"},
        inside_of={
            "policy": "its rules may refuse the call, or say that no person has to be asked",
            "audit": "it writes down who decided",
            "dry_run": "a plan asks no person",
        },
    )

    store: Store
    needs: Needs | RuleSet | RuleFile | None = None
    effects: frozenset[str] = attrs.field(default=frozenset(), converter=_read_effects, kw_only=True)
    tools: frozenset[str] = attrs.field(default=frozenset(), converter=_read_tools, kw_only=True)
    version: str = attrs.field(default="", validator=is_type(str), kw_only=True)
    expires: float = attrs.field(default=86400.0, validator=is_number(above=0, unit="seconds"), kw_only=True)
    hold: float = attrs.field(default=0.0, validator=is_number(least=0, unit="seconds"), kw_only=True)
    notify: Callable[[Approval], object] | None = attrs.field(
        default=None, validator=is_function(optional=True, may_be_async=True), kw_only=True
    )
    _requests: Requests = attrs.field(init=False, repr=False)
    _needs: Needs | None = attrs.field(init=False, repr=False)
    # Why each call of a tool needs a decision; "": not each does.
    _by_tool: ToolMemory[str] = attrs.field(init=False, repr=False, factory=ToolMemory[str])

    def __attrs_post_init__(self) -> None:
        if isinstance(self.store, type) or not callable(getattr(self.store, "write", None)):
            refuse("Approve", "store", "a store, such as stores.SQLite(path)", self.store)
        if isinstance(self.needs, RuleFile):
            self._needs = self.needs.needs_approval
        elif isinstance(self.needs, RuleSet):
            self._needs, self.version = self.needs.needs_approval, self.version or self.needs.version
        elif self.needs is not None and not callable(self.needs):
            refuse("Approve", "needs", "a function, a RuleSet or None", self.needs)
        else:
            self._needs = self.needs
        if self._needs is None and not self.effects and not self.tools:
            refuse("Approve", "needs", "given, or `effects` or `tools`: else no call needs a decision", None)
        self._requests = Requests(self.store)

    @property
    def opens_itself(self) -> bool:
        """Whether it works outside of ``async with pipeline``: with a store in memory."""
        return isinstance(self.store, Memory)

    @property
    def resources(self) -> tuple[Store, ...]:
        """The store, which is opened before this stage."""
        return (self.store,)

    @property
    def approvals(self) -> Approvals:
        """The calls that wait, to decide on them."""
        return Approvals(self.store)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The store closes itself."""

    def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Awaitable[Outcome]:
        """The inside's outcome; or AwaitingApproval, or Denied for a call that was rejected."""
        tool = call.tool
        reason: Any = self._by_tool[tool.effect].get(tool.name)
        if reason is None:
            reason = self._find_reason(call)
        elif not reason and self._needs is not None:
            reason = self._needs(call)
        return self._run(call, call_next, reason) if reason else call_next(call)

    async def _run(self, call: ValidCall, call_next: Handler[ValidCall], reason: Any) -> Outcome:
        if isawaitable(reason):
            reason = await reason
        if not reason or remark_on_plan(call, "once a person has approved it,"):
            return await call_next(call)
        resumed = call.get_state(RESUMED, "")
        until = timing.monotonic() + self.hold
        poll = _FIRST_POLL
        try:
            name = name_request(call, self._find_version(call))
            while True:
                row = await (
                    self._find_resumed(resumed, name) if resumed else self._join(call, name, _tell_reason(reason))
                )
                if row is None:
                    return Failure(ResourceNotFound(approved("There is no such approval for this call.")))
                state = read_approval(row).state
                if state != "pending" or timing.monotonic() >= until:
                    break
                await timing.sleep(min(poll, max(0.0, until - timing.monotonic())))
                poll = min(poll * 1.5, _LAST_POLL)
            if state == "approved":
                return await self._run_approved(call, call_next, row)
        except StoreError:
            return Failure(Unavailable(call.tool.name, "approvals cannot be reached"))
        self._note(call, f"{state}: {row['id']}", row, state)
        if state == "pending":
            return Failure(AwaitingApproval(row["id"], row["expires_at"]))
        if state == "expired":
            return Failure(ResourceNotFound(approved("The approval expired, and nothing was done.")))
        return Failure(Denied("approval", approved(row["message"] or "A person refused this call.")))

    async def request(self, call: ValidCall, /) -> Approval | None:
        """Let a call wait for a decision without running it; None: no decision is needed.

        Raises:
            StoreError: The store gave no answer.
        """
        reason: Any = self._find_reason(call)
        if isawaitable(reason):
            reason = await reason
        return (
            read_approval(await self._join(call, name_request(call, self.version), _tell_reason(reason)))
            if reason
            else None
        )

    async def find_request(self, call: ValidCall, /) -> Approval | None:
        """The approval that exactly this call has, with its id and in its reply; None: it has none.

        A call without an id has the one that waits for an equal call.

        Raises:
            StoreError: The store gave no answer.
        """
        _, rows = await self._requests.read(name_request(call, self._find_version(call)))
        mine = [call.reply or call.get_state(TURN, ""), call.id]
        found = (read_approval(row) for row in reversed(rows) if not call.id or mine in row["calls"])
        return next((each for each in found if call.id or each.state == "pending"), None)

    async def find_call(self, id_: str, /) -> Call | Failure[Any]:
        """The call that an approval is for, as `Pipeline.resume` runs it.

        Returns:
            The call; or ResourceNotFound without such an approval, NotExecuted if its arguments hold secrets and are
            not kept, and Unavailable if the store gives no answer.
        """
        try:
            *_, row = await self._requests.find(id_)
        except StoreError:
            return Failure(Unavailable("", "approvals cannot be reached"))
        if row is None:
            return Failure(ResourceNotFound(approved("There is no such approval.")))
        if row["sent"] is None and read_approval(row).state == "approved":
            return Failure(NotExecuted(approved("its arguments hold secrets and are not kept: send the call again")))
        call = Call(row["tool"], row["sent"], row["id"], row["principal"], conversation=row["conversation"])
        return call.with_state(RESUMED, id_)

    def _find_version(self, call: ValidCall) -> str:
        return self.needs.of(call).version if isinstance(self.needs, RuleFile) else self.version

    def _find_reason(self, call: ValidCall) -> object:
        """The reason why a person has to decide; False: no decision is needed."""
        tool, reason = call.tool, ""
        if tool.effect in self.effects:
            reason = f"the effect of the tool is {tool.effect}"
        elif any(fnmatchcase(tool.name, pattern) for pattern in self.tools):
            reason = "the tool needs approval"
        self._by_tool.remember(tool, reason)
        return reason or (self._needs is not None and self._needs(call))

    async def _find_resumed(self, id_: str, name: str) -> Row | None:
        """The row that a call is resumed by; None: it is for another call, version or policy."""
        *_, row = await self._requests.find(id_)
        return row if row is not None and row["name"] == name else None

    async def _join(self, call: ValidCall, name: str, reason: str) -> Row:
        """The row of a call: the one that it has, the one that waits for an equal call, or a new one."""
        turn = call.reply or call.get_state(TURN, "")
        mine = [turn, call.id]
        for _ in range(_TRIES):
            entry, rows = await self._requests.read(name)
            known = next((row for row in reversed(rows) if call.id and mine in row["calls"]), None)
            if known is not None and read_approval(known).state != "expired":
                return known
            open_ = next((row for row in rows if _may_join(row, turn, call.id)), None)
            joined: Row
            if open_ is not None:
                joined = {**open_, "calls": [*open_["calls"], mine][-_CALLS:]}
                changed = [joined if row is open_ else row for row in rows]
            else:
                # Of a record that is gone the ledger may still have answers: a later one begins with a higher number.
                last = max((int(row["id"].rpartition(".")[2]) for row in rows), default=int(timing.wall_time()))
                joined = self._make_row(call, name, reason, mine, last + 1)
                changed = [*rows, joined]
            if await self._requests.write(name, entry, changed):
                if open_ is None:
                    await self._tell(joined)
                return joined
        raise StoreError("busy")

    def _make_row(self, call: ValidCall, name: str, reason: str, mine: list[str], number: int) -> Row:
        now = timing.wall_time()
        mask = make_mask(call, call.tool)
        plain = show_arguments(call)
        return {
            "id": f"{name}.{number}",
            "name": name,
            "state": "pending",
            "tool": call.tool.name,
            "arguments": redact_arguments(call, call.tool, plain),
            "sent": _as_sent(call) if mask is None else None,  # None: they hold secrets, and are not kept
            "schema": dict(call.tool.parameters.schema),
            "principal": call.principal,
            "conversation": call.conversation,
            "reason": reason if mask is None else mask(reason),
            "policy": self._find_version(call),
            "at": now,
            "expires_at": now + self.expires,
            "calls": [mine],
        }

    async def _tell(self, row: Row) -> None:
        if self.notify is None:
            return
        with FaultBarrier(_logger, "notify of Approve failed"):  # the call waits all the same
            told = self.notify(read_approval(row))
            if isawaitable(told):
                await told

    async def _run_approved(self, call: ValidCall, call_next: Handler[ValidCall], row: Row) -> Outcome:
        """Run what was approved, as one delivery of the ledger, and say who has its answer."""
        if row.get("edited"):
            params = call.tool.parse(row["edit"])
            if type(params) is not dict:
                return Failure(cast("Any", params))
            repairs = (*call.repairs, Repair("", "edited", call.arguments, row["edit"]))
            call = attrs.evolve(call, arguments=row["edit"], params=params, repairs=repairs)
            if (refusal := judge_edit(call)) is not None:
                return refusal
        row = await self._change(row, "ran")  # from now on its end counts, and not its expiry
        text = f"approved by {row['by']}" + (", with other arguments" if row.get("edited") else "")
        self._note(call, text, row, "approved")
        outcome = await call_next(call.with_state(DELIVERY, row["id"]))
        is_answer = type(outcome) is Success or not isinstance(outcome.failure(), (NotExecuted, Unavailable))
        if is_answer and not call.get_state(RESUMED, ""):  # the model has it, and the next such call is another wish
            try:
                await self._change(row, "collected")
            except StoreError:  # the call has run: its outcome counts, and a repetition gets the same one again
                _logger.warning("Tool %.200r: that its answer was given is not noted", call.tool.name)
        if row.get("edited") and type(outcome) is Success and isinstance(outcome.unwrap(), str):
            changed = json.dumps(row["arguments"], ensure_ascii=False)
            return Success(f"{outcome.unwrap()}\n\n(A person changed the arguments of this call: {changed})")
        return outcome

    async def _change(self, row: Row, fact: str) -> Row:
        """Note a fact of a request; nothing is written if it is known."""
        if row.get(fact):
            return row
        for _ in range(_TRIES):
            name, entry, rows, known = await self._requests.find(row["id"])
            if known is None:
                raise StoreError("the request is gone")
            changed = {**known, fact: True}
            if known == changed:
                return changed
            if await self._requests.write(name, entry, [changed if each is known else each for each in rows]):
                return changed
        raise StoreError("busy")

    def _note(self, call: ValidCall, text: str, row: Row, state: str) -> None:
        facts = {"name": row.get("by", ""), "action": state, "approval": row["id"], "version": row["policy"]}
        note_decision(call, "person", **facts, edited=bool(row.get("edited")))
        if call.report is not None:
            call.report.note(self, text)


def _may_join(row: Row, turn: str, call_id: str) -> bool:
    """Whether an equal call that comes later is this one again: not if its answer is known to the model already.

    Two calls of one reply are two wishes, so a call joins none that another call of its own reply asked for.
    """
    if is_settled(row):
        return False
    return not (turn and any(known[0] == turn and known[1] != call_id for known in row["calls"]))


def _as_sent(call: ValidCall) -> Any:
    """The arguments in a form that a later call can be made of: as they were written, else as they are shown."""
    try:
        return json.loads(json.dumps(call.arguments))
    except (TypeError, ValueError):
        return show_arguments(call)


def _tell_reason(reason: object) -> str:
    """The reason for the person; "" where ``needs`` only says that somebody has to decide."""
    return "" if reason is True else str(reason)
