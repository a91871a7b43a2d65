"""Tool: a function, or a JSON Schema with a handler, and what a pipeline may do with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Generic, ParamSpec, TypeVar, cast

import attrs
from typing_extensions import Unpack

from ..base.introspection import is_async, unwrap
from ..base.options import check_type
from ..base.setup_error import SetupError
from ..engine.errors import ToolError
from ..parameters import Parameters, Parse, Undeclared, check_schema, copy_containers
from ..privacy import PublicText
from .error_tables import ErrorTable, build_error, declared
from .failure import ToolFailed
from .tool_options import (
    Detector,
    Effect,
    Ensure,
    Nothing,
    Resource,
    RunIn,
    ToolOptions,
    Verify,
    check_resource,
    check_tool,
    make_tool,
)

P = ParamSpec("P")
T = TypeVar("T", covariant=True)  # noqa: PLC0105  # as in the other modules

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


def _read_parameters(tool: Tool[..., Any]) -> Parameters:
    return Parameters.of_function(tool.fn, skip_first=tool.context, undeclared=tool.undeclared)


def _forget_parse(tool: Tool[..., Any], _attribute: object, parameters: Parameters) -> Parameters:
    """Bind the parser of other parameters at their first use."""
    tool.parse = tool.compile_and_parse
    return parameters


@attrs.define(eq=False)
class Tool(Generic[P, T]):
    """A tool, with all that the pipeline knows about it. ``@tool`` or `Tool.from_schema` makes one.

    ``P`` and ``T`` are the types of its parameters and of its result, for ``pipeline.run``.

    Attributes:
        name: The name that a model sees and calls.
        fn: The original function, called with keyword arguments.
        effect: Effect of a repeated call, see `Effect`.
        description: The description that a model sees.
        reveal: Exceptions whose text the model may see.
        aliases: Further names that find it.
        run_in: Where it runs, such as ``thread``.
        context: Whether the first parameter is a `ToolContext`, which is not part of the schema.
        verify_with: The tool that shows whether a lost call of this one took effect. None: no such tool.
        undeclared: Treatment of arguments that the schema does not declare. None: as the schema says.
        detect: Finds failures in what it returns, see `returned_error`. None: what it returns is a success.
        nothing: The meaning of an empty ``Maybe`` that it returns: a kind of error, a `ToolFailed`, or None: a success
            that holds None.
        errors: The meaning of the exceptions of its own clients. None: the tables of the pipeline decide.
        polling: Whether it is called again and again on purpose; no loop guard counts it then.
        resource: The resource that its calls change; calls of one reply keep their order on it. None: no resource.
        hidden: Whether it is found by its name alone, and neither shown nor suggested to a model.
        meta: Facts of the author's own, never shown.
        output_schema: The JSON Schema of its results, by which the stage `CheckResult` checks them. None: not known.
        ensure: Says what is wrong with a result, for the stage `CheckResult`. None: nothing does.
        timeout: Seconds of one attempt. None: as the pipeline says.
        attempts: Attempts of a call, for the stage `Retry`. None: as the stage says.
        verify: Finds out what became of a lost call. None: nothing does.
        verify_timeout: Seconds for `verify`, and for an async `ensure`.
        composite: Whether its only effects are those of the calls that it makes.
        one_request: Whether its body makes one request, so that a refused one proves that there was no effect.
        origin: Where it was defined, for the texts of set-up errors.
        parameters: The schema of its arguments, compiled.
        anywhere: Whether ``run_in`` was left open, so that a pipeline may choose.
        is_remote: Whether it is one of an MCP server, whose list may change.
        overrides: The tool whose place it takes, see `ToolRegistry.override`. None: no tool.
        direct: Whether ``fn`` called with the params alone gives a coroutine.
        copies: Whether each attempt gets lists and dicts of its own.
        copies_direct: Whether it is direct but for these copies.
        parse: `parameters.parse`, bound: one look-up on the hot path.
    """

    name: str
    fn: Callable[..., Any] = attrs.field(repr=False)
    effect: Effect = "mutating"
    description: str = attrs.field(default="", repr=False)
    reveal: tuple[type[Exception], ...] = ()
    aliases: tuple[str, ...] = ()
    run_in: RunIn = "loop"
    context: bool = False
    verify_with: str | None = None
    undeclared: Undeclared | None = None
    detect: Detector | None = attrs.field(default=None, repr=False)
    nothing: Nothing = attrs.field(default="not_found", repr=False)
    errors: ErrorTable | None = attrs.field(default=None, repr=False)
    polling: bool = False
    resource: Resource | None = None
    hidden: bool = False
    meta: Mapping[str, Any] = attrs.field(factory=dict[str, Any], repr=False)
    output_schema: Mapping[str, Any] | None = attrs.field(default=None, repr=False)
    timeout: float | None = attrs.field(default=None, repr=False)
    attempts: int | None = attrs.field(default=None, repr=False)
    ensure: Ensure | None = attrs.field(default=None, repr=False, kw_only=True)
    verify: Verify | None = attrs.field(default=None, repr=False)
    verify_timeout: float = attrs.field(default=5.0, repr=False, kw_only=True)
    composite: bool = attrs.field(default=False, repr=False)
    one_request: bool = attrs.field(default=False, repr=False)
    origin: str = attrs.field(default="", repr=False)
    parameters: Parameters = attrs.field(
        default=attrs.Factory(_read_parameters, takes_self=True), repr=False, kw_only=True, on_setattr=_forget_parse
    )
    anywhere: bool = attrs.field(default=False, repr=False, kw_only=True)
    is_remote: bool = attrs.field(default=False, repr=False, kw_only=True)
    overrides: Tool[..., Any] | None = attrs.field(default=None, repr=False, kw_only=True)
    direct: bool = attrs.field(init=False, repr=False)
    copies: bool = attrs.field(init=False, repr=False, default=False)
    copies_direct: bool = attrs.field(init=False, repr=False, default=False)
    parse: Parse = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        check_tool(self)
        self.origin = self.origin or _find_origin(self.fn)
        plain = not self.context and self.detect is None and self.errors is None
        self.direct = self.run_in == "loop" and plain and is_async(self.fn)
        self.parse = self.compile_and_parse

    def describe_nothing(self) -> ToolError:
        """The error that an empty ``Maybe`` of this tool stands for, by ``nothing``."""
        said = self.nothing
        if isinstance(said, ToolFailed):
            return declared(said, self.name)
        return build_error(said or "not_found", self.name, PublicText(""))

    def proves_no_effect(self, error: object) -> bool:
        """Whether an error of its body proves that nothing happened: it makes one request, which was not taken."""
        if not self.one_request:
            return False
        from .client_exceptions import proves_no_effect

        return proves_no_effect(getattr(error, "cause", None))

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
            handler: The function to run, sync or async; called with the arguments as keyword arguments. One whose
                only parameter by position is no property of the schema, and that takes no property by keyword, as
                ``handler(arguments)``, is called with one mapping of them.
            description: The description that a model sees. Default "": none.
            context: Whether a ToolContext is the first parameter of ``handler``. Default False.
            **options: As for ``@tool``, see `ToolDecorator`.

        Raises:
            SetupError: The schema does not compile or allows no object, the options contradict each other, or the
                handler cannot be called with what the schema declares.
        """
        from .schema_handlers import adapt_handler  # most programs make their tools from functions

        if parameters is not None and not isinstance(cast("object", parameters), Mapping):
            raise SetupError(f"{name}: `parameters` must be a JSON Schema, which is a mapping, not {parameters!r}")
        check_type(name, "context", context, bool)
        check_schema(parameters, name)  # before it is copied: a deep one has no copy
        properties: Any = (parameters or {}).get("properties")
        names = list(cast("Mapping[str, Any]", properties)) if isinstance(properties, Mapping) else []
        check_resource(name, options.get("resource"), names)
        schema = {"type": "object"} if parameters is None else deepcopy(dict(parameters))
        read = Parameters.of_schema(schema, name, undeclared=options.get("undeclared"))
        read.compile()  # the handler is judged by a schema that is one
        made = make_tool(
            Tool,
            name=name,
            fn=adapt_handler(name, handler, schema if parameters is not None else None, context=context),
            description=description,
            context=context,
            parameters=read,
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

    @property
    def says_results(self) -> bool:
        """Whether it declares what its results are, by a schema or by ``ensure``."""
        return self.ensure is not None or self.output_schema is not None

    def definition(self) -> dict[str, Any]:
        """Return what a model is shown: ``name``, ``description`` and ``parameters``, a JSON Schema. It is a copy.

        Raises:
            SetupError: The type of a parameter has no JSON Schema, or an annotation cannot be found.
        """
        return {
            "name": self.name,
            "description": self.description,
            "parameters": copy_containers(dict(self.parameters.schema)),
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

    def __copy__(self) -> Tool[P, T]:
        return self

    def __deepcopy__(self, _memo: object) -> Tool[P, T]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # A function that a decorator replaced does not pickle, and the reader of a report needs only the facts.
        return _rebuild, ({name: getattr(self, name) for name in _PICKLED}, self.schema or {"type": "object"})


def refuse_as_name(given: object) -> None:
    """Raise SetupError if this is a Tool, or a whole Call: a call has the name of its tool."""
    if issubclass(type(given), Tool):  # isinstance would ask the value itself
        own = cast("Tool[..., Any]", given).name
        raise SetupError(f"a call takes the name of a tool: call({own!r}, …); or use run(tool, …), which is typed")
    from ..engine.call import Call

    if type(given) is Call:
        raise SetupError(
            "a call takes the name of a tool; a Call that is made goes to the pipeline itself: pipeline(…)"
        )


def _find_origin(function: Callable[..., Any]) -> str:
    plain = unwrap(function) if callable(function) else function
    code = getattr(plain, "__code__", None)
    line = f" (line {code.co_firstlineno})" if code else ""
    return f"{getattr(plain, '__module__', '?')}.{getattr(plain, '__qualname__', type(plain).__name__)}{line}"


def _rebuild(facts: dict[str, Any], schema: Mapping[str, Any]) -> Tool[..., Any]:
    return Tool(fn=_stay_behind, parameters=Parameters.of_schema(schema, facts["name"]), **facts)


def _stay_behind(**_arguments: object) -> None:
    raise RuntimeError("this tool was unpickled with a report, and its function was not pickled")
