"""Approve: holds a call back until a person has decided on it, and runs what was approved once."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from inspect import isawaitable
from types import TracebackType
from typing import Any, ClassVar, Self, TypeAlias

import attrs
from returns.result import Failure, Success

from ..approvals import RESUMED, Approval, Approvals, Grant, Requests
from ..approvals.approval_requests import Kept, Row, decide, read_approval, read_state
from ..approvals.joining import Joined, Joining, make_call
from ..approvals.uses import Uses
from ..audit import note_decision
from ..base import timing
from ..base.foreign_values import FaultBarrier
from ..base.options import is_function, is_number, is_type, read_names, refuse
from ..engine.call import Call, Outcome, ValidCall
from ..engine.caller import Origin
from ..engine.compose import Handler, Placement
from ..engine.errors import AwaitingApproval, Denied, NotExecuted, Repair, ResourceNotFound, Unavailable
from ..policies import RuleSet
from ..policies.plan import remark_on_plan
from ..policies.rule_file import RuleFile
from ..privacy import approved, get_logger
from ..stores import Memory, Store, StoreError
from ..tools.tool_memory import ToolMemory

Needs: TypeAlias = Callable[[ValidCall], "bool | str | Awaitable[bool | str]"]
_FIRST_POLL, _LAST_POLL = 0.02, 1.0  # seconds
_MAX_WAIT = 30.0  # seconds for which a call waits for the same one that runs
_AWAY, _RUNS = "approvals cannot be reached", "this very call still runs; its result is not known yet"
_logger = get_logger()


def _read_effects(given: Iterable[str]) -> frozenset[str]:
    return read_names("Approve", "effects", given, ("read", "idempotent", "keyed", "mutating"))


def _read_tools(given: Iterable[str]) -> frozenset[str]:
    return read_names("Approve", "tools", given)


@attrs.define(eq=False)
class Approve:
    """A middleware that asks a person before a call runs. No connection is held open meanwhile.

    A call that needs a decision is `AwaitingApproval`, with the id by which a person decides (`Approvals`). It is bound
    to principal, conversation, tool, the validated params as the tool sees them, and the version of the policy: any
    other call asks anew. The model's own repetition joins the call that waits; two equal calls in one reply are two.
    Once it is approved, ``pipeline.resume(id)`` or the model's repetition runs it, once, and both get its answer. It is
    single use: the next equal call asks anew. A rejected call is `Denied`, with the person's message. A call that a
    standing grant covers (`Approvals.grant`) runs at once.

    Of a tool with declared secrets no arguments are kept, so the model has to send the call again once it is approved.

    Args:
        store: Where calls and decisions are kept, see `toolcall_pipeline.stores`. The pipeline opens and closes it.
        needs: Called with each valid call. Returns whether a person has to decide, or the reason as a text; may be
            async. A `RuleSet` stands for its rules with the action ``approve``. Default None: none.
        effects: Effects of tools whose calls need a decision. Default: none.
        tools: Names of tools, or patterns, whose calls need a decision. Default: none.
        version: The version of ``needs``; with another one, what was approved before has to be asked for again. Default
            "": the version of a `RuleSet`.
        expires: Seconds for which a call waits, and then, from the decision on, for which an approval that was not used
            holds. Default 1 day.
        hold: Seconds for which the call itself waits for a decision before it answers. Default 0: it does not.
        notify: Called with each new `Approval`, such as to tell a chat; may be async. An exception of it is logged.
            Default None: nothing is called.
        four_eyes: Whether who asks may not decide on his own call, nor by a grant of his own; a call without a
            principal is refused. Default False: people approve what their own agent does.

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
        decides=("awaiting_approval", _AWAY),
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
    four_eyes: bool = attrs.field(default=False, validator=is_type(bool), kw_only=True)
    _requests: Requests = attrs.field(init=False, repr=False)
    _uses: Uses = attrs.field(init=False, repr=False)
    _joining: Joining = attrs.field(init=False, repr=False)
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
        self._joining = Joining(self._requests, self.expires, self.four_eyes)
        self._uses = Uses(self._requests)

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
        if not self.opens_itself:
            await self._uses.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._uses.close()

    def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Awaitable[Outcome]:
        """The inside's outcome; or AwaitingApproval, or Denied for a call that was rejected."""
        tool = call.tool
        reason: Any = self._by_tool[tool.effect].get(tool.name)
        if reason is None:
            reason = self._find_reason(call)
        elif not reason and self._needs is not None:
            reason = self._needs(call)
        if reason or (call.state is not None and RESUMED in call.state):
            return self._run(call, call_next, reason)
        return call_next(call)

    async def _run(self, call: ValidCall, call_next: Handler[ValidCall], reason: Any) -> Outcome:
        if isawaitable(reason):
            reason = await reason
        resumed = call.get_state(RESUMED, "")
        if not (reason or resumed) or remark_on_plan(call, "once a person has approved it,"):
            return await call_next(call)
        if self.four_eyes and not call.principal:
            return Failure(Denied("approval", approved("Nobody is named who asks, so nobody else can approve it.")))
        try:
            await self._uses.flush()
            return await self._decide(call, call_next, reason, resumed)
        except StoreError:
            return Failure(Unavailable(call.tool.name, _AWAY))

    async def _decide(self, call: ValidCall, call_next: Handler[ValidCall], reason: Any, resumed: str) -> Outcome:
        """Do what the record of the call says, once it says it."""
        version = self._find_version(call)
        began, poll = timing.monotonic(), _FIRST_POLL
        while True:
            kept, grant, _ = await (
                self._joining.find_resumed(call, resumed) if resumed else self._join(call, version, reason)
            )
            if kept is None:
                return await self._run_granted(call, call_next, version, grant)
            row, state = kept.row, read_state(kept.row)
            if state == "pending" and grant is not None:
                await self._requests.write(kept, decide(row, "approved", grant.by, grant=grant.id))
                continue
            if state == "approved" and resumed and not await self._joining.is_seen(call, row, version):
                await self._requests.write(kept, {**row, "state": "changed"})
                resumed = ""
                continue
            answer = await self._find_answer(call, call_next, kept, state, is_resumed=bool(resumed))
            if answer is not None:
                return answer
            most = {"pending": self.hold, "approved": _MAX_WAIT, "begun": _MAX_WAIT}.get(state, 0.0)
            if (waited := timing.monotonic() - began) >= most:
                self._note(call, row, state)
                return _tell(state, row)
            await timing.sleep(min(poll, most - waited))
            poll = min(poll * 1.5, _LAST_POLL)

    async def _find_answer(
        self, call: ValidCall, call_next: Handler[ValidCall], kept: Kept, state: str, *, is_resumed: bool
    ) -> Outcome | None:
        """Run what was approved, or say what became of it; None: it runs elsewhere, has changed, or is not approved."""
        row = kept.row
        may_run = state == "approved" or (state == "begun" and not await self._uses.is_running(row))
        if may_run and row.get("edited") and not is_resumed:  # what runs, or ran, is another call than this one
            return await self._start_again(call, row)
        if state == "approved":
            return await self._use(call, call_next, kept, is_resumed=is_resumed)
        if may_run:
            return await self._uses.learn(call, kept, is_resumed=is_resumed)
        if state != "ended":
            return None
        self._note(call, row, state)
        return await self._uses.give(call, row, is_resumed=is_resumed)

    async def _run_granted(
        self, call: ValidCall, call_next: Handler[ValidCall], version: str, grant: Grant | None
    ) -> Outcome:
        """Run a call that no person is asked about. None: a resumed one that has no approval."""
        if grant is None or call.get_state(RESUMED, ""):
            return _tell("unknown", {})
        note_decision(call, "person", name=grant.by, action="granted", grant=grant.id, version=version)
        if call.report is not None:
            call.report.note(self, f"granted by {grant.by}: {grant.id}")
        return await call_next(call)

    async def _use(
        self, call: ValidCall, call_next: Handler[ValidCall], kept: Kept, *, is_resumed: bool
    ) -> Outcome | None:
        """Run what was approved; None: another one was first."""
        row = kept.row
        if row.get("edited"):
            call = attrs.evolve(call, repairs=(*call.repairs, Repair("", "edited", row["sent"], row["edit"])))
            call_next = _tell_of_edit(call_next, row)
        self._note(call, row, "approved")
        return await self._uses.run(call, call_next, kept, is_resumed=is_resumed)

    async def _start_again(self, call: ValidCall, row: Row) -> Outcome:
        """Run what a person has changed through all stages from the first, in place of the call that came again."""
        each = () if call.guards is None else call.guards.each
        runner = next((guard.runner() for guard in reversed(each) if type(guard) is Origin), None)
        if runner is None:
            return Failure(Unavailable(call.tool.name, _AWAY))
        stored = attrs.evolve(make_call(row), deps=call.deps, timeout=call.timeout, guards=call.guards)
        self._note(call, row, "approved")
        outcome = await runner.run(stored)
        await self._uses.note_given(row["id"])
        return outcome

    async def request(self, call: ValidCall, /) -> Approval | None:
        """Let a call wait for a decision without running it; None: no decision is needed.

        Raises:
            StoreError: The store gave no answer.
        """
        reason: Any = self._find_reason(call)
        if isawaitable(reason):
            reason = await reason
        if not reason:
            return None
        kept, *_ = await self._join(call, self._find_version(call), reason, begins=False)
        return None if kept is None else read_approval(kept.row)

    async def find_request(self, call: ValidCall, /) -> Approval | None:
        """The approval that exactly this call has; None: it has none. See `Joining.find`.

        Raises:
            StoreError: The store gave no answer.
        """
        kept = await self._joining.find(call, self._find_version(call))
        return None if kept is None else read_approval(kept.row)

    async def find_call(self, id_: str, /, principal: str, conversation: str) -> Call | Failure[Any]:
        """The call that an approval is for, as `Pipeline.resume` runs it.

        Args:
            id_: The id of the approval.
            principal: Who may resume it. "": everybody.
            conversation: Where. "": everywhere.

        Returns:
            The call; or what is known without running it: ResourceNotFound without such an approval, or if it expired;
            Denied if it was rejected; NotExecuted if it may run, and its arguments hold secrets and are not kept;
            Unavailable if the store gives no answer.
        """
        try:
            kept = await self._requests.find(id_)
        except StoreError:
            return Failure(Unavailable("", _AWAY))
        row: Row = {} if kept is None else kept.row
        asked = row.get("principal"), row.get("conversation")
        if kept is None or principal not in ("", asked[0]) or conversation not in ("", asked[1]):
            return _tell("unknown", {})
        state = read_state(row)
        if state in ("rejected", "expired", "changed") or (state == "pending" and row["sent"] is None):
            return _tell(state, row)
        if row["sent"] is None:
            return Failure(NotExecuted(approved("its arguments hold secrets and are not kept: send the call again")))
        return make_call(row)

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

    async def _join(self, call: ValidCall, version: str, reason: object, *, begins: bool = True) -> Joined:
        """The approval of a call, of which somebody is told if it is new."""
        joined = await self._joining.join(call, version, reason, begins=begins)
        if joined.is_new and joined.kept is not None and self.notify is not None:
            with FaultBarrier(_logger, "notify of Approve failed"):  # the call waits all the same
                told = self.notify(read_approval(joined.kept.row))
                if isawaitable(told):
                    await told
        return joined

    def _note(self, call: ValidCall, row: Row, state: str) -> None:
        given = {"grant": row["grant"]} if row.get("grant") else {}
        facts = {"name": row.get("by", ""), "action": state, "approval": row["id"], "version": row["policy"], **given}
        note_decision(call, "person", **facts, edited=bool(row.get("edited")))
        if call.report is not None:
            by = f" by {row['by']}" if row.get("by") else ""
            also = ", with other arguments" if row.get("edited") else ""
            also += f", by the grant {row['grant']}" if given else ""
            call.report.note(self, f"{state}{by}{also}: {row['id']}")


def _tell_of_edit(call_next: Handler[ValidCall], row: Row) -> Handler[ValidCall]:
    """The inside, whose text tells the model what a person has changed."""

    async def run(call: ValidCall) -> Outcome:
        outcome = await call_next(call)
        if type(outcome) is Success and isinstance(text := outcome.unwrap(), str):
            changed = json.dumps(row["arguments"], ensure_ascii=False)
            return Success(f"{text}\n\n(A person changed the arguments of this call: {changed})")
        return outcome

    return run


def _tell(state: str, row: Row) -> Failure[Any]:
    """The answer to a call that does not run."""
    if state == "pending":
        return Failure(AwaitingApproval(row["id"], row["expires_at"]))
    if state == "rejected":
        return Failure(Denied("approval", approved(row.get("message") or "A person refused this call.")))
    if state in ("approved", "begun"):
        return Failure(Unavailable(row["tool"], _RUNS))
    return Failure(ResourceNotFound(_NOTHING[state]))


_NOTHING = {
    "unknown": approved("There is no such approval for this call."),
    "expired": approved("The approval expired, and nothing was done."),
    "changed": approved("The tool or its rules have changed since, and nothing was done."),
}
