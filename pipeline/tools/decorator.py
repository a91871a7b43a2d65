"""@tool: a function becomes a Tool, and can still be called as that function."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

import attrs
from typing_extensions import Unpack

from ..base.introspection import get_docstring, get_open_parameters
from ..base.options import check_type
from ..base.setup_error import SetupError
from ..parameters.docstrings import read_description
from .context import ToolContext
from .definition import Tool
from .function_checks import check_parameters
from .tool_options import ToolOptions, check_resource, make_tool

if TYPE_CHECKING:  # what a tool may return, and is opened: see `tools.returned`
    from returns.future import Future, FutureResult
    from returns.io import IO, IOResult
    from returns.maybe import Maybe
    from returns.result import Failure, Result, Success

    Value = TypeVar("Value")
    Later: TypeAlias = Coroutine[Any, Any, Value]

P = ParamSpec("P")
T = TypeVar("T", covariant=True)  # noqa: PLC0105  # the house has short names for type variables
E = TypeVar("E")
R = TypeVar("R")


class _OfFunction:
    """An attribute of the tool's function. The class of the tool has none, or its own docstring."""

    def __init__(self, name: str, of_class: str | None = None) -> None:
        self._name, self._of_class = name, of_class

    def __get__(self, tool: Tool[..., Any] | None, _: type | None = None) -> Any:
        if tool is not None:
            return tool.fn if self._name == "__wrapped__" else getattr(tool.fn, self._name)
        if self._of_class is None:
            raise AttributeError(self._name)
        return self._of_class


@attrs.define(eq=False)
class FunctionTool(Tool[P, T], Generic[P, T, R]):
    """A tool made from a function; ``R`` is what calling it returns: a coroutine if it is async."""

    __name__ = _OfFunction("__name__")
    __wrapped__ = _OfFunction("__wrapped__")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, without a pipeline."""
        result: R = self.fn(*args, **kwargs)
        return result


@attrs.define(eq=False)
class ContextTool(Tool[P, T], Generic[P, T, R]):
    """A tool made from a function whose first parameter is a ToolContext."""

    __name__ = _OfFunction("__name__")
    __wrapped__ = _OfFunction("__wrapped__")

    def __call__(self, context: ToolContext[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, without a pipeline."""
        result: R = self.fn(context, *args, **kwargs)
        return result


for _kind in (FunctionTool, ContextTool):
    setattr(_kind, "__doc__", _OfFunction("__doc__", _kind.__doc__))  # noqa: B010  # the checkers say it is text


@attrs.frozen
class ContextDecorator:
    """The decorator that ``tool(context=True)`` returns; a type of its own, since annotations alone prove nothing."""

    make: Callable[[Callable[..., Any]], Any]

    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[Any], P], Later[Success[T] | Failure[E]]], /
    ) -> ContextTool[P, T, Later[Success[T] | Failure[E]]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[Any], P], Later[Result[T, E]]], /
    ) -> ContextTool[P, T, Later[Result[T, E]]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[Any], P], Later[IOResult[T, E]]], /
    ) -> ContextTool[P, T, Later[IOResult[T, E]]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[Any], P], Later[Maybe[T]]], /
    ) -> ContextTool[P, T, Later[Maybe[T]]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[Any], P], FutureResult[T, E]], /
    ) -> ContextTool[P, T, FutureResult[T, E]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[Any], P], Future[T]], /
    ) -> ContextTool[P, T, Future[T]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[Any], P], Success[T] | Failure[E]], /
    ) -> ContextTool[P, T, Success[T] | Failure[E]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[Any], P], Result[T, E]], /
    ) -> ContextTool[P, T, Result[T, E]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[Any], P], IOResult[T, E]], /
    ) -> ContextTool[P, T, IOResult[T, E]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[Any], P], Maybe[T]], /
    ) -> ContextTool[P, T, Maybe[T]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[ToolContext[Any], P], IO[T]], /) -> ContextTool[P, T, IO[T]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[Any], P], Coroutine[Any, Any, T]], /
    ) -> ContextTool[P, T, Coroutine[Any, Any, T]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[ToolContext[Any], P], T], /) -> ContextTool[P, T, T]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Make a tool from the function."""
        return self.make(function)


@attrs.frozen
class ToolDecorator:
    """Makes a tool from a function: ``@tool``, ``@tool(effect="read")``; ``@tools.tool`` also registers it.

    The schema is made at first use: a type that has none is a SetupError then. An option that contradicts the function
    or another option is a SetupError at once.

    Args:
        name: The name that a model sees and calls; default: the function's name.
        description: The description that a model sees; default: the function's docstring up to its first section.
        context: Whether the function's first parameter is a ToolContext, which the model does not see; default: False.
        effect: ``read`` changes nothing, ``idempotent`` may be repeated, ``keyed`` may be repeated with the same
            idempotency key (it needs ``context=True``), ``mutating`` may not be repeated; default: ``mutating``.
        reveal: An exception type, or a tuple of them, whose text the model may see; default: none.
        errors: The meaning of exceptions of the function: a mapping of exception types, or of names such as
            ``"httpx.ConnectError"``, to kinds of error or to functions of the exception, see
            `toolcall_pipeline.tools.error_tables`; default: none.
        aliases: Further names that a call may use, not shown to a model; default: none.
        run_in: The name of the executor: ``loop``, ``thread``, ``process``, or one that the pipeline's Execute has.
            None, the default: ``loop`` for an async function, ``thread`` for a sync one, unless the pipeline has one
            executor for all tools without ``run_in``.
        verify_with: The name of the tool that shows whether a lost call of this one took effect; default: none.
        verify: A function of a lost call, with its ``params``, and of its idempotency key, that finds out what became
            of it: ``Success(value)`` or True if it took effect, False if it did not and never will, None if that is not
            known. It is asked in the lost call itself, before that is told as lost, and again before an equal call is
            refused; default: none.
        verify_timeout: The seconds that it may take, after which nothing is known, and those of an async ``ensure``;
            default: 5.
        composite: Whether the only effects of the tool are those of the calls that it makes through its context, as
            with `batch`, so that nothing is remembered of the tool itself; default: False.
        one_request: Whether the body makes one request and no more, redirects and repetitions of its client included.
            Then a 429, a refused connection and a name that does not resolve prove that nothing happened, and the call
            may be made again; default: False, for a second request may be refused after the first had its effect.
        undeclared: The treatment of arguments that the schema does not declare: ``reject`` refuses the call, ``drop``
            leaves them out and records that as a repair, ``pass`` hands them on (a function then needs ``**kwargs``).
            None, the default: as the schema says, and of a function ``pass`` with ``**kwargs`` and else ``reject``.
        detect: A function that finds a failure in what the tool returned, see
            `toolcall_pipeline.tools.detectors`; default: none.
        nothing: The meaning of an empty ``Maybe`` that it returns: a kind of error, a `ToolFailed` that says more, or
            None for a success that holds None; default: ``not_found``.
        polling: Whether it is called again and again on purpose, so that no loop guard counts it; default: False.
        resource: The resource that it works on: a name, or a function of the arguments as sent that returns one, as
            ``lambda arguments: arguments["path"]``. Calls of one `gather` that change the same resource run in their
            order. None, the default: it works on nothing shared. The name of a parameter is refused as a name.
        hidden: Whether it can be called by its name but is neither shown nor suggested to a model; default: False.
        meta: A mapping of the author's own, such as a category; the pipeline does not read it. Default: empty.
        output_schema: The JSON Schema of its result, for clients that ask for it, and for the stage `CheckResult`.
            Default: none.
        ensure: A function of the params and of the result, that returns None, or a text for the model that says what is
            wrong with the result; for the stage `CheckResult`. Default: none.
        timeout: Seconds for each attempt, > 0. In a pipeline with the stage Timeout, the limit for the tool's name in
            that stage comes first. None, the default: as for all tools.
        attempts: Attempts of a call, the first one included, ≥ 1, if the pipeline has the stage Retry. The
            policy for the tool's name in that stage comes first. None, the default: as for all tools.
    """

    register: Callable[[Tool[..., Any]], None] | None = None  # called with each tool; None: it is not registered
    _options: Mapping[str, Any] = attrs.field(factory=dict[str, Any])  # that were given before the function

    @overload
    def __call__(
        self, function: Callable[P, Later[Success[T] | Failure[E]]], /
    ) -> FunctionTool[P, T, Later[Success[T] | Failure[E]]]: ...
    @overload
    def __call__(self, function: Callable[P, Later[Result[T, E]]], /) -> FunctionTool[P, T, Later[Result[T, E]]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Later[IOResult[T, E]]], /
    ) -> FunctionTool[P, T, Later[IOResult[T, E]]]: ...
    @overload
    def __call__(self, function: Callable[P, Later[Maybe[T]]], /) -> FunctionTool[P, T, Later[Maybe[T]]]: ...
    @overload
    def __call__(self, function: Callable[P, FutureResult[T, E]], /) -> FunctionTool[P, T, FutureResult[T, E]]: ...
    @overload
    def __call__(self, function: Callable[P, Future[T]], /) -> FunctionTool[P, T, Future[T]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Success[T] | Failure[E]], /
    ) -> FunctionTool[P, T, Success[T] | Failure[E]]: ...
    @overload
    def __call__(self, function: Callable[P, Result[T, E]], /) -> FunctionTool[P, T, Result[T, E]]: ...
    @overload
    def __call__(self, function: Callable[P, IOResult[T, E]], /) -> FunctionTool[P, T, IOResult[T, E]]: ...
    @overload
    def __call__(self, function: Callable[P, Maybe[T]], /) -> FunctionTool[P, T, Maybe[T]]: ...
    @overload
    def __call__(self, function: Callable[P, IO[T]], /) -> FunctionTool[P, T, IO[T]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> FunctionTool[P, T, Coroutine[Any, Any, T]]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> FunctionTool[P, T, T]: ...
    @overload
    def __call__(
        self,
        /,
        *,
        context: Literal[True],
        name: str | None = ...,
        description: str | None = ...,
        **options: Unpack[ToolOptions],
    ) -> ContextDecorator: ...
    @overload
    def __call__(
        self, /, *, name: str | None = ..., description: str | None = ..., **options: Unpack[ToolOptions]
    ) -> ToolDecorator: ...
    def __call__(self, function: Any = None, /, **options: Any) -> Any:
        """Make a tool from the function; without one, return a decorator that does."""
        options = {"context": False, **self._options, **options}
        if function is None:
            decorator = ToolDecorator(self.register, options)
            return ContextDecorator(decorator) if options["context"] else decorator
        made = _make_tool(function, **options)
        if self.register is not None:
            self.register(made)
        return made


tool = ToolDecorator()


def _make_tool(
    function: Callable[..., Any],
    *,
    context: bool,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[..., Any]:
    if isinstance(function, Tool):
        raise SetupError(f"{function.name}: this is a tool already; @tool takes a function")
    if isinstance(cast("object", function), classmethod):
        method = cast("Any", function).__name__
        raise SetupError(
            f"{method}: a classmethod has no class yet; make a tool of it after the class: tool(Class.{method})"
        )
    if isinstance(cast("object", function), str):
        raise SetupError(f"@tool takes a function, not {function!r}; a name is an option: @tool(name={function!r})")
    if not callable(function):
        raise SetupError(f"@tool takes a function, not {function!r}")
    name = name or getattr(function, "__name__", None)
    if name is None or name == "<lambda>":
        raise SetupError(f"@tool needs `name` for {function!r}, which has no name of its own")
    check_type(name, "context", context, bool)
    left = get_open_parameters(function)
    check_parameters(name, function, left, context=context)
    check_resource(name, options.get("resource"), [parameter.name for parameter in left[context:]])
    undeclared, takes_any = options.get("undeclared"), any(each.kind is each.VAR_KEYWORD for each in left)
    if undeclared is not None and (undeclared == "pass") != takes_any:
        has = "has" if takes_any else "has no"
        raise SetupError(f"{name}: undeclared={undeclared!r} contradicts the function, which {has} **kwargs")
    return make_tool(
        ContextTool if context else FunctionTool,
        name=name,
        fn=function,
        description=read_description(get_docstring(function)) if description is None else description,
        context=context,
        **options,
    )
