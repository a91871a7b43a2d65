"""The options of a tool: their types, their defaults and their checks."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast, get_args

from ..base.introspection import is_async, unwrap
from ..base.options import check_count, check_function, check_number, check_type, refuse
from ..base.setup_error import SetupError
from ..engine.errors import ToolError
from ..parameters import Undeclared
from .error_tables import KINDS, Errors, ErrorTable
from .failure import ToolFailed
from .http_failures import Kind

if TYPE_CHECKING:
    from .definition import Tool

# read: changes nothing. idempotent: twice is as once. keyed: the backend drops repeats of one idempotency key.
Effect: TypeAlias = Literal["read", "idempotent", "keyed", "mutating"]
RunIn: TypeAlias = str  # "loop", "thread", "process", or the name of an executor that the pipeline's Execute has
Resource: TypeAlias = str | Callable[[Mapping[str, Any]], str]  # its name, or a function of the arguments as sent
# Finds a failure in what a tool returned; None: there is none. See `toolcall_pipeline.tools.detectors`.
Detector: TypeAlias = Callable[[object], ToolError | None]
# Of a lost call and its idempotency key: a Success with what it returned, True if it took effect, False if it did not
# and never will, None if that is not known. Async, or a sync function that does not block.
Verify: TypeAlias = Callable[[Any, str], object]
# Of the params of a call and what the tool returned: None, or a text for the model that says what is wrong with it.
# Async, or a sync function that does not block.
Ensure: TypeAlias = Callable[[Mapping[str, Any], Any], str | Awaitable[str | None] | None]
# The meaning of an empty Maybe: a kind of error, a ToolFailed that says more, or None: a success that holds None.
Nothing: TypeAlias = Kind | ToolFailed | None
Revealed: TypeAlias = type[Exception] | tuple[type[Exception], ...]
_FLAGS = ("context", "polling", "hidden", "composite", "one_request")


class ToolOptions(TypedDict, total=False):
    """The options that ``@tool`` and `Tool.from_schema` share; `ToolDecorator` says what each means."""

    effect: Effect
    reveal: Revealed
    errors: Errors | None
    aliases: tuple[str, ...]
    run_in: RunIn | None
    verify_with: str | None
    verify: Verify | None
    verify_timeout: float
    composite: bool
    one_request: bool
    undeclared: Undeclared | None
    detect: Detector | None
    nothing: Nothing
    polling: bool
    resource: Resource | None
    hidden: bool
    meta: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    ensure: Ensure | None
    timeout: float | None
    attempts: int | None


def make_tool(
    kind: Callable[..., Tool[..., Any]], *, name: str, fn: Callable[..., Any], context: bool, **options: Any
) -> Tool[..., Any]:
    """Make a tool of any class from the options of ``@tool``, with their defaults."""
    for option in options.keys() - ToolOptions.__optional_keys__ - {"description", "parameters"}:
        allowed = ", ".join(sorted(ToolOptions.__optional_keys__))
        raise SetupError(f"{name}: @tool has no option `{option}`; it has name, description, context, {allowed}")
    if not isinstance(options.get("resource"), str):
        check_function(name, "resource", options.get("resource"), "a name or", optional=True)
    run_in, reveal, errors = options.pop("run_in", None), options.pop("reveal", ()), options.pop("errors", None)
    return kind(
        name=name,
        fn=fn,
        context=context,
        reveal=_check_revealed(name, reveal),
        errors=ErrorTable.of(name, errors),
        run_in=default_run_in(fn) if run_in is None else run_in,
        anywhere=run_in is None,
        **options,
    )


def check_tool(tool: Tool[..., Any]) -> None:
    """Raise SetupError for an option that is not what it must be, or that contradicts another one."""
    if not _is_name(tool.name):
        raise SetupError(f"`name` of a tool must be text that is not blank, not {tool.name!r}")
    if tool.effect not in get_args(Effect):
        refuse(tool.name, "effect", f"one of {_list(Effect)}", tool.effect)
    if tool.effect == "keyed" and not tool.context:
        raise SetupError(f"{tool.name}: a keyed tool needs the idempotency key of a ToolContext: add context=True")
    if not isinstance(cast("object", tool.aliases), tuple) or not all(map(_is_name, tool.aliases)):
        refuse(tool.name, "aliases", "a tuple of names", tool.aliases)
    if tool.undeclared is not None and tool.undeclared not in get_args(Undeclared):
        refuse(tool.name, "undeclared", f"one of {_list(Undeclared)}", tool.undeclared)
    if tool.detect is not None and (not callable(cast("object", tool.detect)) or is_async(tool.detect)):
        refuse(tool.name, "detect", "a sync function", tool.detect)
    _check_nothing(tool)
    _check_types(tool)
    check_function(tool.name, "verify", tool.verify, optional=True, may_be_async=True)
    check_function(tool.name, "ensure", tool.ensure, optional=True, may_be_async=True)
    check_number(tool.name, "verify_timeout", tool.verify_timeout, above=0, infinite=True, unit="seconds")
    if not isinstance(cast("object", tool.meta), Mapping):
        refuse(tool.name, "meta", "a mapping", tool.meta)
    if tool.output_schema is not None:
        if not isinstance(cast("object", tool.output_schema), Mapping):
            refuse(tool.name, "output_schema", "a JSON Schema, which is a mapping", tool.output_schema)
        from .output_forms import make_form  # needs the class of tools

        make_form(tool.output_schema, tool.name)  # a schema that is none would be found by no call
    check_number(tool.name, "timeout", tool.timeout, above=0, infinite=True, optional=True, unit="seconds")
    check_count(tool.name, "attempts", tool.attempts, optional=True)
    _check_function(tool)


def _check_types(tool: Tool[..., Any]) -> None:
    for flag in _FLAGS:
        check_type(tool.name, flag, getattr(tool, flag), bool)
    check_type(tool.name, "description", tool.description, str)
    check_type(tool.name, "verify_with", tool.verify_with, str, optional=True)


def _check_function(tool: Tool[..., Any]) -> None:
    if not _is_name(tool.run_in):
        refuse(tool.name, "run_in", "the name of an executor, such as loop, thread or process", tool.run_in)
    if inspect.isgeneratorfunction(unwrap(tool.fn)) or inspect.isasyncgenfunction(unwrap(tool.fn)):
        raise SetupError(f"{tool.name}: the function must return one value, not yield several: return a list")
    if tool.run_in == "thread" and is_async(tool.fn):
        raise SetupError(f"{tool.name}: `run_in` must not be 'thread' for an async function, which needs the loop")


def _check_nothing(tool: Tool[..., Any]) -> None:
    if not (tool.nothing is None or tool.nothing in KINDS or isinstance(tool.nothing, ToolFailed)):
        refuse(tool.name, "nothing", f"one of {', '.join(KINDS)}, a ToolFailed or None", tool.nothing)


def check_resource(name: str, resource: object, parameters: Collection[str]) -> None:
    """Raise SetupError for a resource that is called like a parameter: its value must have been meant."""
    if isinstance(resource, str) and resource in parameters:
        raise SetupError(
            f"{name}: `resource` {resource!r} is also a parameter, and as a name it is one resource for all calls; for "
            f"the value of the parameter write resource=lambda arguments: arguments[{resource!r}]"
        )


def default_run_in(function: Callable[..., Any]) -> RunIn:
    """Return the executor of a function without ``run_in``: the loop for an async one, else a worker thread.

    One that `returns` has made of an async function, as ``@future_safe`` does, is awaited as well.
    """
    made_by: Any = getattr(function, "__globals__", {})
    is_future = str(made_by.get("__name__", "")).startswith("returns.") and is_async(inspect.unwrap(function))
    return "loop" if is_future or is_async(function) else "thread"


def _check_revealed(name: str, reveal: Any) -> tuple[type[Exception], ...]:
    types = cast("tuple[Any, ...]", reveal if isinstance(reveal, tuple) else (reveal,))
    for each in types:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise SetupError(f"{name}: `reveal` must be an exception type or a tuple of such types, not {each!r}")
    return types


def _is_name(name: object) -> bool:
    return type(name) is str and bool(name.strip())


def _list(choices: object) -> str:
    return ", ".join(get_args(choices))
