"""CheckResult: a result that is not what its tool declares becomes a failure that says what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isawaitable
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import attrs
from returns.result import Failure, Success

from ..base import timing
from ..base.event_loops import is_failure_of_body
from ..base.options import is_type
from ..engine.call import Outcome, ValidCall
from ..engine.compose import Handler, Placement
from ..engine.errors import Crashed, ExecutionFailed, Problem
from ..messages.author_words import TOOK_EFFECT
from ..messages.result_parts import find_parts, read_mcp
from ..privacy import PublicText
from ..tools import Tool
from ..tools.output_forms import OutputForm, find_form
from ..tools.tool_options import Ensure

_LISTED = 10  # problems that the text names
_SILENT = object()  # an ensure has not answered


class EnsureError(Exception):
    """The ``ensure=`` of a tool failed, after the tool had succeeded.

    Args:
        tool: It. A read has no effect that could have landed.
        cause: The exception that ``ensure`` raised.
    """

    def __init__(self, tool: Tool[..., Any], cause: BaseException) -> None:
        super().__init__(f"the `ensure` of {tool.name} failed: {type(cause).__name__}")
        self.__cause__ = cause
        if tool.effect != "read":
            self.landed = "yes"


@attrs.frozen
class CheckResult:
    """A middleware that checks what the tools return, by their ``output_schema=`` and their ``ensure=``.

    A result that is wrong becomes `ExecutionFailed`; its text says what is wrong, and after a call that changes
    something also that this has happened. It is not repeated, and an equal call is not refused for it. An ``ensure``
    that raises, or is async and takes longer than the tool's ``verify_timeout``, is a bug of its author, `Crashed`, and
    the text for the model says in the same way that the call has taken effect.
    What is checked is the JSON that a model would read; of a result in parts, such as one of MCP, the structured
    content, or nothing if it has none.

    `standard` has this stage once a tool of its registry declares one of the two.

    Args:
        returns: Check also what the functions are annotated to return, of tools without ``output_schema``, where that
            has a JSON Schema. Default False: an annotation is no promise, and tools that work would fail.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="check_result",
        reason="inside of retry, and so of what keeps results: neither cache nor ledger keeps a wrong one as a success",
        inside_of={
            "cache": "a wrong result must not be kept as an answer",
            "ledger": "the ledger keeps how the call ended, and so what was wrong with it",
            "shape": "what is checked is the whole result",
        },
    )

    returns: bool = attrs.field(default=False, validator=is_type(bool), kw_only=True)
    _forms: WeakKeyDictionary[Tool[..., Any], OutputForm | None] = attrs.field(
        init=False, repr=False, eq=False, factory=WeakKeyDictionary[Tool[..., Any], OutputForm | None]
    )

    async def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        """The inside's outcome; ExecutionFailed for a wrong result, Crashed where ``ensure`` has a bug."""
        outcome = await call_next(call)
        if type(outcome) is not Success:
            return outcome
        tool = call.tool
        value: Any = outcome.unwrap()
        wrong: str | None = self._read(tool, value)
        if wrong is None and tool.ensure is not None:
            try:
                wrong = await _ask(tool.ensure, dict(call.params), value, tool.verify_timeout)
            except BaseException as exc:
                if not is_failure_of_body(exc):
                    raise
                return Failure(Crashed(EnsureError(tool, exc)).made_by(self))
        if wrong is None:
            return outcome
        if call.report is not None:
            call.report.note(self, "the result is wrong")
        told = wrong if tool.effect == "read" else f"{wrong.rstrip()}\n{TOOK_EFFECT}"
        return Failure(ExecutionFailed(PublicText(told)).made_by(self))

    def _read(self, tool: Tool[..., Any], value: object) -> str | None:
        """A text that names the faults of a result by its declared form; None: it has none, or no form is declared."""
        if tool.output_schema is None and not self.returns:
            return None
        try:
            form = self._forms[tool]
        except KeyError:
            form = self._forms.setdefault(tool, find_form(tool))
        if form is None:
            return None
        if find_parts(value) is not None:
            read = read_mcp(value)
            if read is None or read.structured is None:
                return None
            value = read.structured
        elif tool.is_remote and not isinstance(value, Mapping):  # the text of a server that sent no structured content
            return None
        problems = form.find_problems(value)
        return _tell(problems) if problems else None


async def _ask(ensure: Ensure, params: Mapping[str, Any], value: object, seconds: float) -> str | None:
    said: Any = ensure(params, value)
    if isawaitable(said):
        asked, said = said, _SILENT
        with timing.move_on_after(seconds):
            said = await asked
        if said is _SILENT:
            raise TimeoutError(f"`ensure` took more than {seconds} seconds")
    if said is None:
        return None
    if isinstance(said, str):
        return str.__str__(said) or None  # a class of somebody's own may have any methods
    raise TypeError(f"`ensure` must return None or a text, not {type(said).__name__}")


def _tell(problems: tuple[Problem, ...]) -> str:
    lines = [_tell_one(each) for each in problems[:_LISTED]]
    if len(problems) > _LISTED:
        lines.append(f"{len(problems) - _LISTED} more")
    return f"The tool ran, but its result is wrong: {'; '.join(lines)}."


def _tell_one(problem: Problem) -> str:
    path = problem.path or "result"
    match problem.rule:
        case "required":
            return f"{path} is missing"
        case "additionalProperties":
            return f"{path} is not declared"
        case "validator":
            return str(problem.expected)
        case _:
            got = "" if problem.got == "a string" and problem.rule != "type" else problem.got
            return f"{path} must be {problem.expected}{f', not {got}' if got else ''}"
