"""LoopGuard: a call that comes to the same again and again is warned of, and then no longer run."""

from __future__ import annotations

import logging
import marshal
import time
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, cast

import attrs
from returns.result import Failure, Success

from pipeline import (
    Denied,
    ExecutionFailed,
    Handler,
    Outcome,
    Placement,
    ResourceNotFound,
    SetupError,
    Tool,
    ToolError,
    ValidCall,
    approved,
)
from pipeline.semconv import SCOPE
from pipeline.tools.definition import is_async

_NUMBERS = frozenset((type(None), bool, int, float))
_SHOWN = 200  # characters of the arguments that a refusal shows
_TOOLS = 1000  # of one principal: a registry may make tools without end
_logger = logging.getLogger(SCOPE)
_held = attrgetter(*Success.__match_args__)  # what a match of an outcome binds, in half of the time


class _Run(NamedTuple):
    """Calls in a row with the same arguments and the same result, as it was when one of them ended."""

    params: dict[str, Any]  # of that one
    times: int
    arguments: int  # the hash of its params, which somebody else may hold and change
    changed: object  # the last change before it
    at: float


class _Seen:
    """The last call of a tool. Changed in place, which costs half of what a tuple in its stead would."""

    __slots__ = ("params", "result", "run")

    def __init__(self) -> None:
        self.params: dict[str, Any] | None = None
        self.result: object = None
        self.run: _Run | None = None  # the last row that was one


class LoopGuard:
    """Counts, for each principal and tool, the calls in a row with the same arguments and the same outcome.

    From the ``warn_after``-th on it warns: a record in the log, ``on_warning(call, times)``, a note in the report, and
    for the model a suggestion where the tool failed and its author made none. A success is never touched. After
    ``refuse_after`` of them (None: never) the same call is refused, until the tool is called with other arguments, or
    ``forget_after`` seconds after it last ran.

    New arguments or a new result begin the count anew. So do, from the second call on, ``forget_after`` seconds, and a
    success of that principal that may have changed something and was no repetition itself: tests are run again after
    each edit. A result is new if a model would read it differently, be it but for a time of day. Polling is exempt by
    declaration, ``@tool(polling=True)``, or by name, ``exempt``.

    ``principal`` should name a conversation: of several under one name the calls are counted as those of one. At least
    the last ``size`` principals are remembered, at most twice as many: for each tool the params of the last call, and
    of its result a number or a hash. Threads may share it; of calls that end at once one may not count.

    Stands outside of Retry, whose attempts are one call, and of Cache, whose answers are results as well. Arguments
    that are not valid do not come so far: `pipeline.messages.Conversation` tells of those.
    """

    placement: ClassVar[Placement] = Placement(
        marks=True,
        kind="loop_guard",
        reason="outside of retry: attempts are the runtime's, repetitions the model's",
    )

    def __init__(
        self,
        warn_after: int = 3,
        refuse_after: int | None = 5,
        *,
        forget_after: float = 300.0,  # seconds
        exempt: Iterable[str] = (),
        on_warning: Callable[[ValidCall, int], object] | None = None,
        size: int = 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not _is_count(warn_after, 2):
            raise SetupError(f"LoopGuard: the second call is the first to repeat anything, so not {warn_after!r}")
        if refuse_after is not None and not _is_count(refuse_after, warn_after):
            raise SetupError(f"LoopGuard: it refuses after {warn_after}, when it warns, or later, not {refuse_after!r}")
        if not forget_after > 0 or not _is_count(size, 1):
            raise SetupError(f"LoopGuard: forget_after and size are more than zero, not {forget_after!r} and {size!r}")
        names: list[object] = [exempt] if isinstance(exempt, str) else list(exempt)
        if isinstance(exempt, str) or not all(isinstance(name, str) for name in names):
            raise SetupError(f"LoopGuard: exempt is a set of names, not {exempt!r}")
        if on_warning is not None and (not callable(cast("object", on_warning)) or is_async(on_warning)):
            raise SetupError(f"LoopGuard: on_warning is a plain function of a call and a number, not {on_warning!r}")
        self._warn = warn_after
        self._most = float("inf") if refuse_after is None else refuse_after
        self._forget = forget_after
        self._exempt = frozenset(names)
        self._on_warning = on_warning
        self._size = size
        self._clock = clock
        # The principals of late and those before them: to keep them in order would take longer than all else here.
        self._young: dict[str, dict[Tool[..., Any], _Seen | None]] = {}  # None: that tool is exempt
        self._old: dict[str, dict[Tool[..., Any], _Seen | None]] = {}
        self._changed: dict[str, object] = {}  # another object after each call that may have changed something

    async def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        """The inside's outcome, with a suggestion if it is a repeated failure; Denied where it is not run again."""
        tool, params = call.tool, call.params
        try:
            seen = self._young[call.principal][tool]
        except KeyError:
            seen = self._begun(call.principal, tool)
        if seen is None:
            return await call_next(call)
        try:  # here, and not in a function: this is what a call pays that repeats nothing
            repeated = seen.params == params
        except Exception:  # noqa: BLE001  # as of arrays, which do not say whether they are equal
            repeated = False
        if repeated:
            return await self._again(call, call_next, seen)
        outcome = await call_next(call)
        value: object = _held(outcome)
        kind: type[object] = type(value)  # written out, as above: most results are one of the two
        seen.result = hash(value) if kind is str else value if kind in _NUMBERS else _hash(outcome)
        seen.params = params
        if tool.effect != "read":
            self._may_have_changed(call, outcome)
        return outcome

    async def _again(self, call: ValidCall, call_next: Handler[ValidCall], seen: _Seen) -> Outcome:
        """A call with the arguments of the one before."""
        params = call.params
        arguments = _hash(Success(params))
        if (times := self._before(call, seen, arguments)) >= self._most:
            return _refused(self, call, times)
        outcome = await call_next(call)
        result, times = _result(outcome), 1
        if seen.result == result:  # of the last one to end, which may have begun later
            times += self._before(call, seen, arguments)
        elif call.tool.effect != "read":
            self._may_have_changed(call, outcome)
        seen.params, seen.result = params, result
        seen.run = _Run(params, times, arguments, self._changed.get(call.principal), self._clock())
        return outcome if times < self._warn else self._warned(call, outcome, times)

    def _before(self, call: ValidCall, seen: _Seen, arguments: int) -> int:
        """How many calls in a row this one would follow."""
        run = seen.run
        if run is None or run.params is not seen.params:
            return int(_equal(seen.params, call.params))
        if run.arguments != arguments or run.changed is not self._changed.get(call.principal):
            return 0
        return run.times if self._clock() - run.at < self._forget else 0

    def _begun(self, principal: str, tool: Tool[..., Any]) -> _Seen | None:
        tools = self._young.get(principal)
        if tools is None:
            tools = self._old.pop(principal, {})
            if len(self._young) >= self._size:
                self._young, self._old = {}, self._young
            self._young[principal] = tools
        if len(tools) >= _TOOLS:
            tools.clear()
        return tools.setdefault(tool, None if tool.polling or tool.name in self._exempt else _Seen())

    def _may_have_changed(self, call: ValidCall, outcome: Outcome) -> None:
        """After what was no repetition: what others come to may be another thing now, even if it is the same."""
        if type(outcome) is Success:
            if len(self._changed) >= self._size:
                self._changed.clear()
            self._changed[call.principal] = object()

    def _warned(self, call: ValidCall, outcome: Outcome, times: int) -> Outcome:
        name = call.tool.name
        if _logger.hasHandlers():  # as for failures: where logging is not configured, nothing goes to stderr
            facts = {"tool": name, "call_id": call.id, "times": times}
            text = "Tool %.200r: the same arguments came to the same result %d times (call %.200r)"
            _logger.warning(text, name, times, call.id, extra=facts)
        _note(self, call, f"the same arguments came to the same result {times} times")
        if self._on_warning is not None:
            try:
                self._on_warning(call, times)
            except Exception:  # whatever becomes of the warning, the call came to what it came to
                _logger.exception("on_warning failed")
        if type(outcome) is Failure:
            error: ToolError = outcome.failure()
            if isinstance(error, (ExecutionFailed, ResourceNotFound)) and not error.details.suggestion:
                advice = approved(f"The same arguments came to the same result {times} times. Try something else.")
                return Failure(attrs.evolve(error, details=attrs.evolve(error.details, suggestion=advice)))
        return outcome


def _refused(stage: LoopGuard, call: ValidCall, times: int) -> Outcome:
    from pipeline.messages.text import short
    from pipeline.messages.values import as_text

    _note(stage, call, f"not run: the same arguments came to the same result {times} times")
    sent = call.arguments
    tried = f"{call.tool.name}({short(as_text(sent).strip(), _SHOWN) if sent else '{}'})"  # in the model's own words
    said = f"The same call came to the same result {times} times, so it was not run again: {tried}. "
    return Failure(Denied("loop_guard", approved(said + "Change the arguments, or try something else.")))


def _note(stage: LoopGuard, call: ValidCall, text: str) -> None:
    if call.report is not None:
        call.report.note(stage, text)


def _equal(one: dict[str, Any] | None, other: dict[str, Any]) -> bool:
    try:
        return one == other
    except Exception:  # noqa: BLE001  # as above
        return False


def _result(outcome: Outcome) -> object:
    """Equal for what a model cannot tell apart. Never the value: of a failure, its traceback holds whole frames."""
    value: object = _held(outcome)
    kind: type[object] = type(value)
    return hash(value) if kind is str else value if kind in _NUMBERS else _hash(outcome)


def _hash(outcome: Outcome[Any]) -> int:
    """Of the bytes of plain data, a third of the time of JSON; of all else, of the text that a model would read."""
    if type(outcome) is Success:
        try:
            return hash(marshal.dumps(outcome.unwrap(), 2))  # the last version that is the same for a shared object
        except ValueError:
            pass
    from pipeline.messages import render

    return hash(render(outcome))


def _is_count(number: object, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= least
