"""LoopGuard: warns of a call that comes to the same result again and again, and then refuses to run it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar, TypeVar

import attrs
from returns.result import Failure, Success

from ..base import timing
from ..base.foreign_values import FaultBarrier
from ..base.options import check_count, is_count, is_function, is_number, read_names
from ..engine.call import Outcome, ResolvedCall
from ..engine.compose import Handler, Placement
from ..engine.errors import Denied, ExecutionFailed, ResourceNotFound, ToolError
from ..messages import render
from ..once import are_alike, join_digest, read_asked, write_arguments
from ..privacy import approved, get_logger
from ..stage_state.keys import as_given
from ..stage_state.loop_guard_calls import LastCall, LastCalls, Row
from ..tools import Tool

R = TypeVar("R", bound=ResolvedCall)

_SHOWN = 200  # characters of the arguments in a refusal
_SMALL = frozenset((type(None), bool, int, float))
_TEXTS = frozenset((str, bytes))
_logger = get_logger()


def _read_exempt(names: Iterable[str]) -> frozenset[str]:
    return read_names("LoopGuard", "exempt", names)


@attrs.define(eq=False)
class LoopGuard:
    """A middleware that counts calls in a row with equal arguments and outcomes, for each conversation and tool.

    From the ``warn_after``-th call on it warns: with a record in the log, ``on_warning``, a note in the report and, if
    the tool failed without a suggestion, a suggestion for the model. It never changes a success. When ``refuse_after``
    calls have run, the same call is refused until the tool is called with other arguments, or ``forget_after`` seconds
    after it last ran.

    Arguments are equal by loose equality, see ONCE.md, for this refuses and answers nothing. Other arguments or another
    outcome start the count anew. So do ``forget_after`` seconds, and a success of the same
    conversation that may have changed something and was itself no repetition: running the tests again after each edit
    is no loop. Outcomes are equal if a model reads the same. Tools that poll are exempt: ``@tool(polling=True)``.

    The calls of a principal that name no conversation are counted together. It stands
    outside of Retry, whose attempts are one call, and of Cache, whose answers count as well. Inside of Validate it sees
    valid calls only. Outside of it, as by ``.before("validate", LoopGuard())``, it counts calls that Validate refuses
    too, equal if their arguments were written alike. Threads may share an instance; of equal calls that end at the same
    time one may not be counted.

    Args:
        warn_after: Equal calls, the first one included, from which on it warns. Must be ≥ 2. Default 3.
        refuse_after: Equal calls that may run. Must be ≥ ``warn_after``. None: it never refuses. Default 5.
        forget_after: Seconds after which an earlier call does not count. Must be > 0; infinity: it counts for ever.
            Default 300.
        exempt: Names of tools that are not counted.
        on_warning: Called with the call and the count, for each warning. An exception of it is logged. Default None:
            nothing is called.
        key: Says which calls are counted together: those for which it returns the same value. A call for which it
            returns None is not counted. Default None: each principal has each of its conversations by itself.
        size: Conversations that are remembered: at least the last so many, at most twice as many. Must be ≥ 1. Default
            1024.
        max_bytes: Estimated bytes of the arguments that are kept, without the last call; the oldest are
            forgotten first. A call whose arguments were forgotten repeats nothing. Must be ≥ 1. Default 16 MiB.
        clock: Returns seconds; only differences count. Default ``time.monotonic``; tests pass their own.

    Raises:
        SetupError: An option is out of its range, or of another type.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="loop_guard",
        reason="outside of retry: attempts are the runtime's, repetitions the model's",
        holds_back="a repetition that is refused has not begun",
        tool_options=("exempt",),
    )

    warn_after: int = attrs.field(default=3, validator=is_count(2))
    refuse_after: int | None = 5
    forget_after: float = attrs.field(
        default=300.0, validator=is_number(above=0, infinite=True, unit="seconds"), kw_only=True
    )
    exempt: frozenset[str] = attrs.field(default=frozenset(), converter=_read_exempt, kw_only=True)
    on_warning: Callable[[Any, int], object] | None = attrs.field(
        default=None, validator=is_function(optional=True), kw_only=True
    )
    key: Callable[[Any], Hashable] | None = attrs.field(
        default=None, validator=is_function(optional=True), kw_only=True
    )
    size: int = attrs.field(default=1024, validator=is_count(), kw_only=True)
    max_bytes: int = attrs.field(default=16 * 2**20, validator=is_count(), kw_only=True)
    clock: Callable[[], float] = attrs.field(
        default=timing.monotonic, validator=is_function(), kw_only=True, repr=False
    )
    _kept: LastCalls = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        check_count("LoopGuard", "refuse_after", self.refuse_after, self.warn_after, optional=True)
        self._kept = LastCalls(self.size, self.max_bytes)

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome, with a suggestion if it is a repeated failure; Denied for a call that is not run."""
        tool = call.tool
        params: dict[str, Any] | None = getattr(call, "params", None)
        if params is None:  # it is not validated
            params = {"": write_arguments(call)}
        key: Hashable = (call.principal, call.conversation) if call.conversation else call.principal
        if self.key is not None and (key := self.key(call)) is None:
            return await call_next(call)
        if self.key is not None or type(call.principal) is not str:
            key = as_given(key)
        try:
            last = self._kept.recent[key].calls[tool]
        except KeyError:
            last = self._kept.add(key, tool, exempt=tool.polling or tool.name in self.exempt)
        if last is None:
            return await call_next(call)
        if last.params is not None and are_alike(tool, last.params, params):
            return await self._repeat(call, call_next, last, params)
        outcome = await call_next(call)
        if type(outcome) is Success:
            value = outcome.unwrap()
            last.digest = value if type(value) in _SMALL else _digest(outcome)
            if tool.effect != "read":
                last.conversation.changes += 1
        else:
            last.digest = _digest(outcome)
        last.params = params
        last.row = None
        if not last.newest:
            self._kept.weigh(last)
        return outcome

    async def _repeat(self, call: R, call_next: Handler[R], last: LastCall, params: dict[str, Any]) -> Outcome:
        """Run a call with the arguments of the one before, or refuse it."""
        arguments = join_digest(read_asked(call, params).loose)
        times = self._times(call.tool, last, params, arguments)
        if self.refuse_after is not None and times >= self.refuse_after:
            return self._refuse(call, times)
        outcome = await call_next(call)
        digest, times = _digest(outcome), 1
        if last.digest == digest:  # of the last call that ended, which may have begun later
            times += self._times(call.tool, last, params, arguments)
        elif call.tool.effect != "read" and type(outcome) is Success:
            last.conversation.changes += 1
        last.params, last.digest = params, digest
        if not last.newest:
            self._kept.weigh(last)
        last.row = Row(times, arguments, last.conversation.changes, self.clock())
        return outcome if times < self.warn_after else self._warn(call, outcome, times)

    def _times(self, tool: Tool[..., Any], last: LastCall, params: dict[str, Any], arguments: object) -> int:
        """Number of calls in a row, up to the last one that ended, that were equal to this one."""
        row = last.row
        if row is None:
            return int(last.params is not None and are_alike(tool, last.params, params))
        if row.arguments != arguments or row.changes != last.conversation.changes:
            return 0
        return row.times if self.clock() - row.at < self.forget_after else 0

    def _warn(self, call: ResolvedCall, outcome: Outcome, times: int) -> Outcome:
        """The outcome, with a suggestion if it is a failure that takes one and has none."""
        repetition = f"the same arguments came to the same result {times} times"
        if _logger.hasHandlers():  # as for failures: where logging is not configured, nothing goes to stderr
            extra = {"tool": call.tool.name, "call_id": call.id, "times": times}
            _logger.warning("Tool %.200r: %s (call %.200r)", call.tool.name, repetition, call.id, extra=extra)
        if call.report is not None:
            call.report.note(self, repetition)
        if self.on_warning is not None:
            with FaultBarrier(_logger, "on_warning failed"):  # a bug of the hook must not change the outcome
                self.on_warning(call, times)
        if type(outcome) is Failure:
            error: ToolError = outcome.failure()
            if isinstance(error, (ExecutionFailed, ResourceNotFound)) and not error.details.suggestion:
                advice = approved(f"{repetition.capitalize()}. Try something else.")
                return Failure(error.changed(details=attrs.evolve(error.details, suggestion=advice)))
        return outcome

    def _refuse(self, call: ResolvedCall, times: int) -> Outcome:
        if call.report is not None:
            call.report.note(self, f"not run: the same arguments came to the same result {times} times")
        secrets = call.tool.parameters.secrets
        arguments = call.arguments if secrets is None else secrets.redact(call.arguments)
        sent = render(Success(arguments)).strip() if arguments else "{}"  # as the model wrote it
        shown = "".join(each if each.isprintable() else " " for each in sent[:_SHOWN]) + "…" * (len(sent) > _SHOWN)
        text = (
            f"The same call came to the same result {times} times, so it was not run again: {call.tool.name}({shown})."
        )
        return Failure(Denied("loop_guard", approved(f"{text} Change the arguments, or try something else.")))


def _digest(outcome: Outcome[Any]) -> object:
    """Equal for outcomes that a model reads alike. Small: the traceback of a failure would hold whole frames."""
    if type(outcome) is Success:
        value = outcome.unwrap()
        if type(value) in _SMALL:
            return value
        if type(value) in _TEXTS:
            return hash(value)
    return hash(render(outcome, limit=None))
