"""Tool: a function, or a JSON Schema with a handler, and what a pipeline may do with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypedDict, TypeVar, cast, get_args

import attrs
from typing_extensions import Unpack

from ..errors import SetupError, ToolError
from ..introspection import unwrap
from ..options import check_function
from ..parameters import Parameters, Parse, Undeclared, check_schema, copy_containers
from .error_tables import Errors, ErrorTable

# read: changes nothing. idempotent: twice is as once. keyed: the backend drops repeats of one idempotency key.
Effect: TypeAlias = Literal["read", "idempotent", "keyed", "mutating"]
RunIn: TypeAlias = str  # "loop", "thread", "process", or the name of an executor that the pipeline's Execute has
Resource: TypeAlias = str | Callable[[Mapping[str, Any]], str]  # its name, or a function of the arguments as sent
# Finds a failure in what a tool returned; None: there is none. See `pipeline.tools.detectors`.
Detector: TypeAlias = Callable[[object], ToolError | None]
Revealed: TypeAlias = type[Exception] | tuple[type[Exception], ...]
P = ParamSpec("P")
T = TypeVar("T")

_PICKLED = (  # the facts of a tool that travel with a report
    "name",
    "effect",
    "description",
    "aliases",
    "run_in",
    "context",
    "verify_with",
    "undeclared",
    "polling",
    "hidden",
    "output_schema",
    "timeout",
    "attempts",
    "origin",
)


class ToolOptions(TypedDict, total=False):
    """The options that ``@tool`` and `Tool.from_schema` share; `ToolDecorator` says what each means."""

    effect: Effect
    reveal: Revealed
    errors: Errors | None
    aliases: tuple[str, ...]
    run_in: RunIn | None
    verify_with: str | None
    undeclared: Undeclared | None
    detect: Detector | None
    polling: bool
    resource: Resource | None
    hidden: bool
    meta: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    timeout: float | None
    attempts: int | None


def _read_parameters(tool: Tool[..., Any]) -> Parameters:
    return Parameters.of_function(tool.fn, skip_first=tool.context, undeclared=tool.undeclared)


def _forget_parse(tool: Tool[..., Any], _attribute: object, parameters: Parameters) -> Parameters:
    """Bind the parser of other parameters at their first use."""
    tool.parse = tool.compile_and_parse
    return parameters


@attrs.define(eq=False)
class Tool(Generic[P, T]):
    """What the pipeline knows of a tool. ``@tool`` or `Tool.from_schema` makes one.

    ``P`` and ``T`` are the types of its parameters and of its result, for ``pipeline.run``.
    """

    name: str
    fn: Callable[..., Any] = attrs.field(repr=False)  # the original function, called with keyword arguments
    effect: Effect = "mutating"
    description: str = attrs.field(default="", repr=False)
    reveal: tuple[type[Exception], ...] = ()  # exceptions whose text the model may see
    aliases: tuple[str, ...] = ()
    run_in: RunIn = "loop"
    context: bool = False  # the first parameter is a ToolContext, and not part of the schema
    verify_with: str | None = None  # the tool that shows whether a lost call of this one took effect
    undeclared: Undeclared | None = None  # None: as the schema says
    detect: Detector | None = attrs.field(default=None, repr=False)
    errors: ErrorTable | None = attrs.field(default=None, repr=False)  # what exceptions of its own clients mean
    polling: bool = False  # called again and again on purpose: no loop guard counts it
    resource: Resource | None = None  # calls in one reply that change the same resource keep their order
    hidden: bool = False  # found by its name, but neither shown nor suggested to a model
    meta: Mapping[str, Any] = attrs.field(factory=dict[str, Any], repr=False)  # the author's own, shown to nobody
    output_schema: Mapping[str, Any] | None = attrs.field(default=None, repr=False)  # of what it returns; not checked
    timeout: float | None = attrs.field(default=None, repr=False)  # seconds, for the stage Timeout
    attempts: int | None = attrs.field(default=None, repr=False)  # for the stage Retry
    origin: str = attrs.field(default="", repr=False)  # where it was defined, for SetupErrors
    parameters: Parameters = attrs.field(
        default=attrs.Factory(_read_parameters, takes_self=True), repr=False, kw_only=True, on_setattr=_forget_parse
    )
    anywhere: bool = attrs.field(default=False, repr=False, kw_only=True)  # run_in was left open: a pipeline may choose
    overrides: Tool[..., Any] | None = attrs.field(default=None, repr=False, kw_only=True)  # see ToolRegistry.override
    direct: bool = attrs.field(init=False, repr=False)  # calling fn with the params alone gives a coroutine
    copies: bool = attrs.field(init=False, repr=False, default=False)  # each attempt has lists and dicts of its own
    copies_direct: bool = attrs.field(init=False, repr=False, default=False)  # direct, but for that
    parse: Parse = attrs.field(init=False, repr=False)  # that of its parameters, bound: one look-up on the hot path

    def __attrs_post_init__(self) -> None:
        self._check()
        self.origin = self.origin or _find_origin(self.fn)
        plain = not self.context and self.detect is None and self.errors is None
        self.direct = self.run_in == "loop" and plain and is_async(self.fn)
        self.parse = self.compile_and_parse

    @staticmethod
    def from_schema(
        *,
        name: str,
        parameters: Mapping[str, Any] | None,
        handler: Callable[..., object],
        description: str = "",
        context: bool = False,
        **options: Unpack[ToolOptions],
    ) -> Tool[..., Any]:
        """Make a tool from a JSON Schema and a handler.

        Args:
            name: The name that a model sees and calls.
            parameters: The JSON Schema of its arguments; None: any object. It is copied. Nothing is fetched for a
                ``$ref``, neither from the network nor from a file.
            handler: The function to run, sync or async; called with the arguments as keyword arguments.
            description: The description that a model sees. Default "": none.
            context: Whether a ToolContext is the first parameter of ``handler``. Default False.
            **options: Those of ``@tool``, see `ToolDecorator`.

        Raises:
            SetupError: The schema does not compile or allows no object, or the options contradict each other.
        """
        if parameters is not None and not isinstance(cast("object", parameters), Mapping):
            raise SetupError(f"{name}: `parameters` must be a JSON Schema, which is a mapping, not {parameters!r}")
        check_schema(parameters, name)  # before it is copied: a deep one has no copy
        properties: Any = (parameters or {}).get("properties")
        names = list(cast("Mapping[str, Any]", properties)) if isinstance(properties, Mapping) else []
        check_resource(name, options.get("resource"), names)
        schema = {"type": "object"} if parameters is None else deepcopy(dict(parameters))
        made = make_tool(
            Tool,
            name=name,
            fn=handler,
            description=description,
            context=context,
            parameters=Parameters.of_schema(schema, name, undeclared=options.get("undeclared")),
            **options,
        )
        made.compile()
        kinds: Any = schema.get("type", "object")
        if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
            raise SetupError(f"{name}: `parameters` must describe an object, as a model sends arguments, not {kinds!r}")
        return made

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of its parameters; None for a function that was not used yet, see `definition`."""
        return self.parameters.schema if self.parameters.is_compiled else None

    def definition(self) -> dict[str, Any]:
        """Return what a model is shown: ``name``, ``description`` and ``parameters``, a JSON Schema. It is a copy.

        Raises:
            SetupError: The type of a parameter has no JSON Schema, or an annotation cannot be found.
        """
        return {
            "name": self.name,
            "description": self.description,
            "parameters": deepcopy(self.parameters.schema),
        }

    def compile(self) -> None:
        """Compile its parameters now, if they are not: at the first use of the tool it would take longer.

        Raises:
            SetupError: The type of a parameter has no JSON Schema, or an annotation cannot be found.
        """
        self.parse = self.parameters.compile().parse
        if not self.parameters.flat:
            self.copies_direct = self.copies_direct or self.direct  # or: another thread may be here too
            self.copies, self.direct = True, False

    def copy_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Copy the dicts, lists, tuples and sets in params; objects of other classes stay the same objects."""
        return copy_containers(params)

    def compile_and_parse(self, arguments: object) -> Any:
        """Parse the arguments of the first call; `parse` is its parameters' own from then on."""
        self.compile()
        return self.parse(arguments)

    def _check(self) -> None:
        if not _is_name(self.name):
            raise SetupError(f"`name` of a tool must be text that is not blank, not {self.name!r}")
        if self.effect not in get_args(Effect):
            raise SetupError(f"{self.name}: `effect` must be one of {_list(Effect)}, not {self.effect!r}")
        if self.effect == "keyed" and not self.context:
            raise SetupError(f"{self.name}: a keyed tool needs the idempotency key of a ToolContext: add context=True")
        if not isinstance(cast("object", self.aliases), tuple) or not all(map(_is_name, self.aliases)):
            raise SetupError(f"{self.name}: `aliases` must be a tuple of names, not {self.aliases!r}")
        if self.undeclared is not None and self.undeclared not in get_args(Undeclared):
            raise SetupError(f"{self.name}: `undeclared` must be one of {_list(Undeclared)}, not {self.undeclared!r}")
        if self.detect is not None and (not callable(cast("object", self.detect)) or is_async(self.detect)):
            raise SetupError(f"{self.name}: `detect` must be a sync function, not {self.detect!r}")
        check_options(self.name, self.meta, self.output_schema, self.timeout, self.attempts)
        if not _is_name(self.run_in):
            raise SetupError(
                f"{self.name}: `run_in` must be the name of an executor, such as loop, thread or process, "
                f"not {self.run_in!r}"
            )
        if inspect.isgeneratorfunction(unwrap(self.fn)) or inspect.isasyncgenfunction(unwrap(self.fn)):
            raise SetupError(f"{self.name}: the function must return one value, not yield several: return a list")
        if self.run_in == "thread" and is_async(self.fn):
            raise SetupError(f"{self.name}: `run_in` must not be 'thread' for an async function, which needs the loop")

    def __copy__(self) -> Tool[P, T]:
        return self

    def __deepcopy__(self, _memo: object) -> Tool[P, T]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # A function that a decorator replaced does not pickle, and whoever reads a report needs only the facts.
        return _rebuild, ({name: getattr(self, name) for name in _PICKLED}, self.schema or {"type": "object"})


def make_tool(
    kind: Callable[..., Tool[..., Any]], *, name: str, fn: Callable[..., Any], context: bool, **options: Any
) -> Tool[..., Any]:
    """Make a tool of any class from the options of ``@tool``, with their defaults.

    Raises:
        SetupError: The options contradict each other, or one of them is not what it must be.
    """
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


def check_options(name: str, meta: Any, output_schema: Any, timeout: Any, attempts: Any) -> None:
    """Raise SetupError for an option that is not what it must be."""
    if not isinstance(meta, Mapping):
        raise SetupError(f"{name}: `meta` must be a mapping, not {meta!r}")
    if output_schema is not None:
        if not isinstance(output_schema, Mapping):
            raise SetupError(
                f"{name}: `output_schema` must be a JSON Schema, which is a mapping, not {output_schema!r}"
            )
        check_schema(cast("object", output_schema), name)
    if timeout is not None and not (type(timeout) in (int, float) and timeout > 0):
        raise SetupError(f"{name}: `timeout` must be a number of seconds > 0 or None, not {timeout!r}")
    if attempts is not None and not (type(attempts) is int and attempts > 0):
        raise SetupError(f"{name}: `attempts` must be an integer ≥ 1 or None, not {attempts!r}")


def check_resource(name: str, resource: object, parameters: Collection[str]) -> None:
    """Raise SetupError for a resource that is called like a parameter: its value must have been meant."""
    if isinstance(resource, str) and resource in parameters:
        raise SetupError(
            f"{name}: `resource` {resource!r} is also a parameter, and as a name it is one resource for all calls; for "
            f"the value of the parameter write resource=lambda arguments: arguments[{resource!r}]"
        )


def _is_name(name: object) -> bool:
    return type(name) is str and bool(name.strip())


def _list(choices: object) -> str:
    return ", ".join(get_args(choices))


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it returns a coroutine, as far as its definition shows."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def default_run_in(function: Callable[..., Any]) -> RunIn:
    """Return the executor of a function without ``run_in``: the loop for an async one, else a worker thread."""
    return "loop" if is_async(function) else "thread"


def _check_revealed(name: str, reveal: Any) -> tuple[type[Exception], ...]:
    types = cast("tuple[Any, ...]", reveal if isinstance(reveal, tuple) else (reveal,))
    for each in types:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise SetupError(f"{name}: `reveal` must be an exception type or a tuple of such types, not {each!r}")
    return types


def _find_origin(function: Callable[..., Any]) -> str:
    plain = unwrap(function) if callable(function) else function
    code = getattr(plain, "__code__", None)
    line = f" (line {code.co_firstlineno})" if code else ""
    return f"{getattr(plain, '__module__', '?')}.{getattr(plain, '__qualname__', type(plain).__name__)}{line}"


def _rebuild(facts: dict[str, Any], schema: Mapping[str, Any]) -> Tool[..., Any]:
    return Tool(fn=_stay_behind, parameters=Parameters.of_schema(schema, facts["name"]), **facts)


def _stay_behind(**_arguments: object) -> None:
    raise RuntimeError("this tool was unpickled with a report, and its function was not pickled")
