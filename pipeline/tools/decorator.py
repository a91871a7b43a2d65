"""@tool: a function becomes a Tool, and stays callable as that function."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

import attrs

from ..errors import SetupError
from ..introspection import get_docstring, get_open_parameters
from ..parameters.docstrings import description as described
from .context import ToolContext
from .definition import Detector, Effect, Resource, Revealed, RunIn, Tool, Undeclared, default_run_in, expected
from .failure import ToolFailed

__all__ = ["Effect", "Tool", "ToolContext", "ToolDecorator", "ToolFailed", "tool"]

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


@attrs.define(eq=False)
class FunctionTool(Tool[P, T], Generic[P, T, R]):
    """A tool made of a function; ``R`` is what calling that gives (a coroutine for async ones)."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function, past the pipeline."""
        result: R = self.fn(*args, **kwargs)
        return result


@attrs.define(eq=False)
class ContextTool(Tool[P, T], Generic[P, T, R]):
    """A tool made of a function whose first parameter is a ToolContext."""

    def __call__(self, context: ToolContext, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function, past the pipeline."""
        result: R = self.fn(context, *args, **kwargs)
        return result


@attrs.frozen
class Decorator:
    """What ``tool(effect=…)`` gives."""

    make: Callable[[Callable[..., Any]], Any]

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> FunctionTool[P, T, Coroutine[Any, Any, T]]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> FunctionTool[P, T, T]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Make a tool of the function."""
        return self.make(function)


@attrs.frozen
class ContextDecorator:
    """What ``tool(context=True)`` gives: an overload of its own, since guessing it from the annotation misleads."""

    make: Callable[[Callable[..., Any]], Any]

    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext, P], Coroutine[Any, Any, T]], /
    ) -> ContextTool[P, T, Coroutine[Any, Any, T]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[ToolContext, P], T], /) -> ContextTool[P, T, T]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Make a tool of the function."""
        return self.make(function)


@attrs.frozen
class ToolDecorator:
    """``@tool``, ``@tool(effect="read")``; as ``@tools.tool`` it also registers what it makes.

    Options: ``name`` (the function's), ``effect`` (``mutating``), ``expect`` (exceptions whose text the model may
    see), ``aliases``, ``run_in`` (``loop`` for async functions, ``thread`` for sync ones, which keeps the caller's
    context variables; ``process``, or a name that the pipeline's Execute has), ``description`` (the docstring up to its
    sections), ``verify_with`` (the tool that tells
    whether a lost call of this one landed), ``undeclared`` (what becomes of arguments that the function does not
    take: ``reject``, or ``drop``), ``detect`` (finds a failure in what it returned, see `pipeline.tools.detectors`),
    ``polling`` (asked again and again on purpose: no loop guard counts it), ``resource`` (what it works on, see
    `gather`), ``hidden`` (not shown to a model), ``context=True`` (the first parameter is a ToolContext, unseen by the
    model). Raises SetupError where they contradict each other. The schema is made when it
    is first wanted.
    """

    register: Callable[[Tool[..., Any]], None] | None = None

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
        effect: Effect = ...,
        reveal: Revealed = ...,
        aliases: tuple[str, ...] = ...,
        run_in: RunIn | None = ...,
        description: str | None = ...,
        verify_with: str | None = ...,
        undeclared: Undeclared | None = ...,
        detect: Detector | None = ...,
        polling: bool = ...,
        resource: Resource | None = ...,
        hidden: bool = ...,
    ) -> ContextDecorator: ...
    @overload
    def __call__(
        self,
        /,
        *,
        name: str | None = ...,
        effect: Effect = ...,
        reveal: Revealed = ...,
        aliases: tuple[str, ...] = ...,
        run_in: RunIn | None = ...,
        description: str | None = ...,
        verify_with: str | None = ...,
        undeclared: Undeclared | None = ...,
        detect: Detector | None = ...,
        polling: bool = ...,
        resource: Resource | None = ...,
        hidden: bool = ...,
    ) -> Decorator: ...
    def __call__(self, function: Any = None, /, *, context: bool = False, **options: Any) -> Any:
        """Make a tool of the function, or a decorator that does."""

        def make(function: Callable[..., Any]) -> Any:
            made = _made(function, context=context, **options)
            if self.register is not None:
                self.register(made)
            return made

        if function is not None:
            return make(function)
        return ContextDecorator(make) if context else Decorator(make)


tool = ToolDecorator()


def _made(
    function: Callable[..., Any],
    *,
    context: bool,
    name: str | None = None,
    effect: Effect = "mutating",
    reveal: Revealed = (),
    aliases: tuple[str, ...] = (),
    run_in: RunIn | None = None,
    description: str | None = None,
    verify_with: str | None = None,
    undeclared: Undeclared | None = None,
    detect: Detector | None = None,
    polling: bool = False,
    resource: Resource | None = None,
    hidden: bool = False,
) -> Tool[..., Any]:
    if isinstance(function, Tool) or not callable(function):
        raise SetupError(f"a tool is made from a function, not from {function!r}")
    name = name or getattr(function, "__name__", None)
    if name is None or name == "<lambda>":
        raise SetupError(f"{function!r} has no name of its own: give it name=")
    left = get_open_parameters(function)
    if context and not left:
        raise SetupError(f"{name}: context=True wants a first parameter for the ToolContext")
    for parameter in left[context:]:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise SetupError(f"{name}: {parameter.name} is positional-only, and a model names its arguments")
    if undeclared is not None and (undeclared == "pass") != any(each.kind is each.VAR_KEYWORD for each in left):
        raise SetupError(f"{name}: undeclared={undeclared!r} contradicts its parameters, with **kwargs or without")
    if description is None:
        description = described(get_docstring(function))
    kind: Any = ContextTool if context else FunctionTool
    made: Tool[..., Any] = kind(
        name,
        function,
        effect,
        description,
        expected(reveal),
        aliases,
        default_run_in(function) if run_in is None else run_in,
        context,
        verify_with,
        None,
        undeclared,
        detect,
        polling,
        resource,
        hidden,
    )
    made.anywhere = run_in is None
    return made
