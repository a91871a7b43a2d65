"""Stage: one stage of a stack, with its name, its role, and the phases that it takes and hands on."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import attrs
from returns.result import Failure, Result, Success

from ...base.introspection import unwrap
from ...base.setup_error import SetupError
from ...tools.definition import Tool
from ..call import Call, Outcome, ResolvedCall
from ..errors import ToolError
from ..report import Observer
from .phases import read_check_phases, read_end_phase, read_middleware_phases
from .placement import ANYWHERE, Placement

In = TypeVar("In", bound=Call)
Out = TypeVar("Out", bound=Call)  # the bound keeps an async function from passing as a check

Handler: TypeAlias = Callable[[In], Awaitable[Outcome]]
# A stage of the user's own may be annotated with `Result`, of which an Outcome is one.
End: TypeAlias = Callable[[In], Awaitable[Result[Any, ToolError]]]
Middleware: TypeAlias = Callable[[In, Handler[Out]], Awaitable[Result[Any, ToolError]]]
Check: TypeAlias = Callable[[In], Out | Success[Out] | Failure[ToolError]]
AnyStage: TypeAlias = Check[Any, Any] | Middleware[Any, Any] | Observer  # placed by name: checked when it is built
Role: TypeAlias = Literal["observe", "check", "wrap", "end"]

_HAS_ITS_OWN_SIGNATURE = (FunctionType, MethodType, functools.partial)
_ROLE_BY_ARITY: dict[int | None, Role] = {1: "check", 2: "wrap"}
_ARITY = {"check": 1, "wrap": 2, "end": 1}
_FORMS: dict[Role, str] = {"observe": "observer", "check": "check", "wrap": "middleware", "end": "end"}


@runtime_checkable
class ToolChecker(Protocol):
    """An end that cannot run every tool: it is asked about each tool when the pipeline is built."""

    def check_tool(self, tool: Tool[..., Any]) -> None:
        """Raise SetupError for a tool that this end cannot run."""
        ...


@attrs.frozen
class Stage:
    """A stage as it stands in a stack."""

    name: str
    role: Role
    obj: Any  # as the user gave it
    run: Callable[..., Any] = attrs.field(repr=False)  # a function or bound method: 50 ns less than calling an instance

    @classmethod
    def of(cls, obj: Any, role: Role | None = None, name: str | None = None) -> Stage:
        """Make a stage of a user's object.

        Args:
            obj: A check, a middleware, an end or an observer.
            role: The role that it must have. None: a check or a middleware, by its parameters, or an observer.
            name: Its name in the stack. None: the name of the function or class, in snake case.

        Raises:
            SetupError: The object is none of these, or not one of that role.
        """
        if isinstance(obj, type):
            raise SetupError(f"{obj.__name__} is a class, and a stage is an instance of it: {obj.__name__}(…)")
        name = name or _name_of(obj)
        if role == "observe" or (role is None and not callable(obj) and hasattr(obj, "begin")):
            return cls(name, "observe", obj, _begin_of(obj, name))
        if not callable(obj):
            raise SetupError(f"{obj!r} is not a stage: it cannot be called")
        run = cast("Callable[..., Any]", obj if isinstance(obj, _HAS_ITS_OWN_SIGNATURE) else obj.__call__)
        run = cast(
            "Callable[..., Any]", getattr(cast("Any", obj), "as_middleware", None) or run
        )  # of a check that an option turns into a middleware
        arity = _arity(run)
        role = role or _ROLE_BY_ARITY.get(arity)
        if role is None:
            raise SetupError(f"{name} is not a stage: a check takes (call), a middleware (call, call_next)")
        _check_signature(run, role, arity, name)
        stage = cls(name, role, obj, run)
        if role == "check" or inspect.iscoroutinefunction(unwrap(run)) or stage.placement.announces_body:
            return stage
        return attrs.evolve(stage, run=_insist_on_awaitable(run, name))

    @property
    def finds(self) -> bool:
        """Whether it makes a ResolvedCall of a call that is not one yet."""
        takes, gives = self.phases()
        return issubclass(gives, ResolvedCall) and not issubclass(takes, ResolvedCall)

    @property
    def placement(self) -> Placement:
        """The place that it declares."""
        declared = getattr(self.obj, "placement", None)
        return declared if isinstance(declared, Placement) else ANYWHERE

    def phases(self) -> tuple[type[Call], type[Call]]:
        """The phases that it takes and hands on; any call where it is not annotated."""
        names: dict[str, Any] = {"Handler": Handler}
        if self.role == "check":
            return read_check_phases(self.run, names)
        if self.role == "wrap":
            return read_middleware_phases(self.run, names)
        takes = read_end_phase(self.run, names)
        return takes, takes


def _check_signature(run: Callable[..., Any], role: Role, arity: int | None, name: str) -> None:
    """Raise SetupError where a stage of that role cannot be called as a pipeline calls it."""
    if unmet := [p.name for p in inspect.signature(run).parameters.values() if _is_unmet(p)]:
        raise SetupError(f"{name} wants {', '.join(unmet)}, which no pipeline gives")
    if role == "check" and inspect.iscoroutinefunction(unwrap(run)):
        raise SetupError(f"{name} is async, and a check does no I/O: make it a middleware, (call, call_next)")
    if arity is None or arity == _ARITY[role]:
        return
    if role == "wrap" and arity == 1:
        raise SetupError(f"{name} takes a call only: a middleware takes (call, call_next)")
    if role != "wrap" and arity == 2:  # noqa: PLR2004
        raise SetupError(f"{name} takes two arguments, as a middleware does: put it in with wrap()")


def _insist_on_awaitable(run: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a middleware or an end that is not an ``async def``: it may return an awaitable, as a partial does."""

    @functools.wraps(run)
    def checked(*args: Any) -> Any:
        answer = run(*args)
        if inspect.isawaitable(answer):
            return answer
        raise SetupError(f"{name} answered with {type(answer).__name__}, which nobody can await: make it `async def`")

    return checked


def _begin_of(obj: Any, name: str) -> Callable[..., Any]:
    begin: Callable[..., Any] | None = getattr(obj, "begin", None)
    if begin is None or not callable(begin):
        raise SetupError(f"{name} is not an observer: it has no method begin(tool, started)")
    return begin


def _is_unmet(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty


def _name_of(obj: Any) -> str:
    plain = obj.func if isinstance(obj, functools.partial) else obj
    name: str = getattr(plain, "__name__", None) or type(plain).__name__
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _arity(run: Callable[..., Any]) -> int | None:
    """Number of arguments that it must be given; None where any number will do."""
    parameters = inspect.signature(run).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def describe(stages: Sequence[Stage]) -> str:
    """The text. A reason comes from the stage's `Placement`, else the first line of its docstring, else empty."""
    width = max(len(stage.name) for stage in stages)
    lines = (f"{stage.name:{width}}  {_FORMS[stage.role]:10}  {_reason(stage)}".rstrip() for stage in stages)
    return "\n".join(lines)


def _reason(stage: Stage) -> str:
    reason = stage.placement.reason or inspect.getdoc(stage.obj) or ""
    return reason.partition("\n")[0]
