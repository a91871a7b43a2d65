"""Stage: one stage of a stack, with its name, its role, its `Placement`, and the phases that it takes and hands on.

The phases are read from its annotations.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import FunctionType, MethodType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    runtime_checkable,
)

import attrs
from returns.result import Failure, Result, Success

from ...base.foreign_values import or_default
from ...base.introspection import unwrap
from ...base.setup_error import SetupError
from ...tools.definition import Tool
from ..call import Call, Outcome, ResolvedCall, ValidCall
from ..errors import ToolError
from ..report import Observer

In = TypeVar("In", bound=Call)
Out = TypeVar("Out", bound=Call)  # the bound keeps an async function from passing as a check

Handler: TypeAlias = Callable[[In], Awaitable[Outcome]]
# A stage of the user's own may be annotated with `Result`, of which an Outcome is one.
End: TypeAlias = Callable[[In], Awaitable[Result[Any, ToolError]]]
Middleware: TypeAlias = Callable[[In, Handler[Out]], Awaitable[Result[Any, ToolError]]]
Check: TypeAlias = Callable[[In], Out | Success[Out] | Failure[ToolError]]
AnyStage: TypeAlias = Check[Any, Any] | Middleware[Any, Any] | Observer  # placed by name: checked when it is built
Role: TypeAlias = Literal["observe", "check", "wrap", "end"]

# What an annotation may use besides the globals of its function.
_KNOWN: dict[str, Any] = {"Handler": Handler} | {cls.__name__: cls for cls in (Call, ResolvedCall, ValidCall)}
_HAS_ITS_OWN_SIGNATURE = (FunctionType, MethodType, functools.partial)
_ROLE_BY_ARITY: dict[int | None, Role] = {1: "check", 2: "wrap"}
_ARITY = {"check": 1, "wrap": 2, "end": 1}
_FORMS: dict[Role, str] = {"observe": "observer", "check": "check", "wrap": "middleware", "end": "end"}


@attrs.frozen(kw_only=True)
class Placement:
    """The class attribute ``placement`` of a stage. A stage without one may stand anywhere.

    A subclass inherits it, so the rules for `Cache` hold for ``class MyCache(Cache)`` as well.

    Args:
        kind: The name that the rules of other stages use for it, such as ``"retry"``. Default "": no rule knows it.
        reason: One line for `Pipeline.describe`: why the stage stands where it does.
        inside_of: Kinds of stage that must stand around this one if both are there, each with the reason. Where
            there are several stages of this kind, one of them there will do.
        needs: Kinds of stage; one of each must stand inside of this one, each with the reason. A stage without a kind
            will do as well: its work is unknown.
        repeats: The stage may run its inside more than once. Each run is an attempt, with a span of its own. A
            pipeline has at most one such stage.
        runs_body: Of a middleware. True: it does the tool's work itself, and counts as the body from its entry until it
            calls on. It must stand inside of all that decides whether the body may begin. False: it never does. Default
            None: it does not say. It is not taken for the body either, but a tool that changes something is not
            repeated after a failure that arose in it before it called on.
        announces_body: Of an end. It says when the body begins, with `begin_body`. Default False: it counts as the body
            from its entry.
        holds_back: The stage may answer in place of the body; this says why a stage that begins the call must stand
            inside of it. Default "": it does not.
        begins: The stage writes down that the call has begun, as `Ledger` does: it must stand inside of each stage that
            ``holds_back``. Its method ``look_up``, a middleware, runs ahead of these.
        decides: Kinds of error, and reasons of an Unavailable, with which this stage answers: the log names it then.
        tool_options: Attributes of the stage that hold names of tools, as a mapping by name or a collection. A pipeline
            refuses a name that none of its registries has. An attribute that is None or a function is left alone.
            ``renames.values`` are the values of a mapping, and of ``tools.patterns`` patterns are left alone.
        span: The stage has a live span of its own, which is current within it: spans of libraries that it calls, and of
            the stages inside of it, stand below. Default False: its span is made when the call has ended. Either has
            the time of the stage; a live one also that of its inside.
        owns_registry: The attribute ``registry`` of the stage holds tools of the pipeline.
        closes_tools: A check that closes tools of its own accord, and is no step of a call. A pipeline gives its
            registries to ``watch`` of it, and asks it before each body; a pipeline has one such stage at most.
    """

    kind: str = ""
    reason: str = ""
    inside_of: Mapping[str, str] = attrs.field(factory=dict[str, str])
    needs: Mapping[str, str] = attrs.field(factory=dict[str, str])
    repeats: bool = False
    runs_body: bool | None = None
    announces_body: bool = False
    holds_back: str = ""
    begins: bool = False
    decides: Collection[str] = ()
    tool_options: tuple[str, ...] = ()
    span: bool = False
    owns_registry: bool = False
    closes_tools: bool = False


ANYWHERE = Placement()


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
        # Of a check that an option turns into a middleware.
        run = cast("Callable[..., Any]", getattr(cast("Any", obj), "as_middleware", None) or run)
        arity = _arity(run)
        role = role or _ROLE_BY_ARITY.get(arity)
        if role is None:
            raise SetupError(f"{name} is not a stage: a check takes (call), a middleware (call, call_next)")
        _check_signature(run, role, arity, name)
        stage = cls(name, role, obj, run)
        _check_placement(stage)
        if role == "check" or inspect.iscoroutinefunction(unwrap(run)) or stage.placement.runs_body is False:
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
        if self.role == "check":
            return _read_check_phases(self.run)
        if self.role == "wrap":
            return _read_middleware_phases(self.run)
        takes = _read_taken(self.run)
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


def _check_placement(stage: Stage) -> None:
    """Raise SetupError where a stage says of the body what only a stage of another role can say."""
    if stage.placement.announces_body and stage.role != "end":
        raise SetupError(
            f"{stage.name} says announces_body=True, which is of an end; if it runs the body it says runs_body=True"
        )
    if stage.placement.runs_body and stage.role != "wrap":
        raise SetupError(f"{stage.name} says runs_body=True, which is of a middleware")


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


def _read_check_phases(check: Callable[..., Any]) -> tuple[type[Call], type[Call]]:
    """Return the phase that a check takes, and the one that it returns on success.

    An annotation that is missing, or that cannot be evaluated, means any call.
    """
    signature = inspect.signature(check)
    takes = _read_taken(check)
    returned = _evaluate(check, signature.return_annotation)
    return takes, max(takes, *(_phase_of(each) for each in get_args(returned) or (returned,)), key=depth)


def _read_middleware_phases(middleware: Callable[..., Any]) -> tuple[type[Call], type[Call]]:
    """Return the phase that a middleware takes, and the one that it hands to ``call_next``; as above."""
    signature = inspect.signature(middleware)
    takes = _read_taken(middleware)
    if len(signature.parameters) == 1:
        return takes, takes
    handler = _evaluate(middleware, list(signature.parameters.values())[1].annotation)
    while get_origin(handler) is Annotated:
        handler = get_args(handler)[0]
    arguments: Any = get_args(handler)
    handed_on = arguments[0] if arguments and isinstance(arguments[0], list) else ()
    return takes, max(takes, _phase_of(handed_on[0]) if handed_on else Call, key=depth)


def depth(phase: type[Call]) -> int:
    """The place of a phase in a call: a later phase has more ancestors."""
    return len(phase.__mro__)


def _read_taken(function: Callable[..., Any]) -> type[Call]:
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return Call if first is None else _phase_of(_evaluate(function, first.annotation))


@or_default(None)
def _evaluate(function: Callable[..., Any], annotation: Any) -> Any:
    """One annotation by itself: the others may use names that exist for the type checkers only."""
    if not isinstance(annotation, str):
        return annotation
    known = {**_KNOWN, **getattr(unwrap(function), "__globals__", {})}
    return eval(annotation, known)  # noqa: S307  # the author's own source


def _phase_of(hint: Any) -> type[Call]:
    """The phase that an annotation means; of several, the earliest."""
    if isinstance(hint, TypeVar):
        hint = hint.__bound__ or Union[hint.__constraints__ or (Call,)]  # noqa: UP007  # of as many as there are
    if get_origin(hint) is Annotated:
        return _phase_of(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return min(map(_phase_of, get_args(hint)), key=depth)
    return hint if isinstance(hint, type) and issubclass(hint, Call) else Call
