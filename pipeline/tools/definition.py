"""Tool: a function, or a raw schema with a handler, and what may be done with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, cast

import attrs

from .. import semconv
from ..errors import SetupError, ToolError
from ..introspection import unwrap

if TYPE_CHECKING:
    from ..parameters.coercions import Place
    from ..parameters.parsing import Parse

# read: changes nothing. idempotent: twice is as once. keyed: the backend drops repeats of one idempotency key.
Effect: TypeAlias = Literal["read", "idempotent", "keyed", "mutating"]
RunIn: TypeAlias = str  # "loop", "thread", "process", or a name that the pipeline's Execute has for a place
# What becomes of arguments that the schema does not declare: refused, left out with an entry in the ledger, or taken.
Undeclared: TypeAlias = Literal["reject", "drop", "pass"]
Resource: TypeAlias = str | Callable[[Mapping[str, Any]], str]  # its name, or the name by the arguments as sent
# Reads a failure in what a tool returned; None: it is none. See `pipeline.tools.detectors`.
Detector: TypeAlias = Callable[[object], ToolError | None]
Revealed: TypeAlias = type[Exception] | tuple[type[Exception], ...]
P = ParamSpec("P")
T = TypeVar("T")


def call_attributes(name: str) -> dict[str, str | int]:
    """What the span of a call says from its start on.

    One attempt is what nearly all calls take: put right at the end where it was another number, which costs a tenth
    of a span less than to say it of each.
    """
    return {
        semconv.OPERATION: semconv.EXECUTE_TOOL,
        semconv.TOOL_NAME: name,
        semconv.TOOL_TYPE: semconv.FUNCTION,
        semconv.ATTEMPTS: 1,
    }


@attrs.define(eq=False)
class Tool(Generic[P, T]):
    """What the pipeline knows of a tool; ``P`` and ``T`` are what ``pipeline.run`` is typed by."""

    name: str
    fn: Callable[..., Any] = attrs.field(repr=False)  # the original function, called with keyword arguments
    effect: Effect = "mutating"
    description: str = attrs.field(default="", repr=False)
    reveal: tuple[type[Exception], ...] = ()  # exceptions whose text the model may see
    aliases: tuple[str, ...] = ()
    run_in: RunIn = "loop"
    context: bool = False  # the first parameter is a ToolContext, and no part of the schema
    verify_with: str | None = None  # the tool that tells whether a lost call of this one landed
    schema: Mapping[str, Any] | None = attrs.field(default=None, repr=False)  # None: made from fn when first wanted
    undeclared: Undeclared | None = None  # None: as the schema says
    detect: Detector | None = attrs.field(default=None, repr=False)  # finds a failure in what fn returned
    polling: bool = False  # asked again and again on purpose: no loop guard counts it
    resource: Resource | None = None  # what it works on: calls of one reply that change the same keep their order
    hidden: bool = False  # found by its name, but neither shown nor suggested to a model
    origin: str = attrs.field(default="", repr=False)  # where it was defined, for set-up errors
    anywhere: bool = attrs.field(init=False, repr=False, default=False)  # nobody said where: a pipeline may choose
    direct: bool = attrs.field(init=False, repr=False)  # calling fn with the params alone gives a coroutine
    parse: Parse = attrs.field(init=False, repr=False)  # arguments -> params, or what is wrong with them
    # What repairs know of its parameters, once they had to know it: their names, and what each may be.
    parameters: frozenset[str] | None = attrs.field(init=False, repr=False, default=None)
    places: dict[str, Place] = attrs.field(init=False, repr=False, factory=dict[str, Any])
    span_name: str = attrs.field(init=False, repr=False)
    attempt_name: str = attrs.field(init=False, repr=False)
    span_attributes: dict[str, str | int] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._check()
        self.origin = self.origin or _origin(self.fn)
        plain = not self.context and self.detect is None
        self.direct = self.run_in == "loop" and plain and is_async(self.fn)
        self.parse = self._compile_and_parse
        self.span_name = f"execute_tool {self.name}"
        self.attempt_name = f"attempt {self.name}"
        self.span_attributes = call_attributes(self.name)

    @staticmethod
    def from_schema(
        *,
        name: str,
        parameters: Mapping[str, Any] | None,
        handler: Callable[..., object],
        description: str = "",
        effect: Effect = "mutating",
        reveal: Revealed = (),
        aliases: tuple[str, ...] = (),
        run_in: RunIn | None = None,
        context: bool = False,
        verify_with: str | None = None,
        undeclared: Undeclared | None = None,
        detect: Detector | None = None,
        polling: bool = False,
        resource: Resource | None = None,
        hidden: bool = False,
    ) -> Tool[..., Any]:
        """A tool described by JSON Schema; ``handler`` is called with keyword arguments.

        ``parameters=None`` means any object; the further options are those of ``@tool``. Raises SetupError where the
        schema does not compile; nothing is fetched for a ``$ref``, neither from the network nor from a file.
        """
        if parameters is not None and not isinstance(cast("object", parameters), Mapping):
            raise SetupError(f"{name}: its parameters are a JSON Schema, a mapping, and not {parameters!r}")
        schema = {"type": "object"} if parameters is None else deepcopy(dict(parameters))
        made: Tool[..., Any] = Tool(
            name,
            handler,
            effect,
            description,
            expected(reveal),
            aliases,
            default_run_in(handler) if run_in is None else run_in,
            context,
            verify_with,
            schema,
            undeclared,
            detect,
            polling,
            resource,
            hidden,
        )
        made.anywhere = run_in is None
        from ..parameters.parsing import of_schema

        made.parse = of_schema(schema, name, undeclared)
        return made

    def definition(self) -> dict[str, Any]:
        """What a model is shown: ``name``, ``description`` and ``parameters``, a JSON Schema of the caller's own."""
        if self.schema is None:
            self._compile()
        return {"name": self.name, "description": self.description, "parameters": deepcopy(self.schema)}

    def _compile_and_parse(self, arguments: object) -> Any:
        self._compile()
        return self.parse(arguments)

    def _compile(self) -> None:
        from ..parameters.parsing import of_function  # pydantic costs 100 ms: not before a tool is used

        self.parse, self.schema = of_function(self.fn, skip_first=self.context)

    def _check(self) -> None:
        if not _is_name(self.name):
            raise SetupError(f"a tool's name is a text that is not empty, not {self.name!r}")
        if self.effect not in ("read", "idempotent", "keyed", "mutating"):
            raise SetupError(f"{self.name}: effect is read, idempotent, keyed or mutating, not {self.effect!r}")
        if self.effect == "keyed" and not self.context:
            raise SetupError(
                f"{self.name}: a keyed tool takes its idempotency key from a ToolContext: add context=True"
            )
        if not isinstance(cast("object", self.aliases), tuple) or not all(map(_is_name, self.aliases)):
            raise SetupError(f"{self.name}: aliases is a tuple of names, not {self.aliases!r}")
        if self.undeclared not in (None, "reject", "drop", "pass"):
            raise SetupError(f"{self.name}: undeclared is reject, drop or pass, not {self.undeclared!r}")
        if self.detect is not None and (not callable(cast("object", self.detect)) or is_async(self.detect)):
            raise SetupError(f"{self.name}: detect is a function of what the tool returned, not {self.detect!r}")
        if not _is_name(self.run_in):
            raise SetupError(f"{self.name}: run_in is the name of a place, as loop, thread or process: {self.run_in!r}")
        if inspect.isgeneratorfunction(unwrap(self.fn)) or inspect.isasyncgenfunction(unwrap(self.fn)):
            raise SetupError(f"{self.name} is a generator: a tool returns one value, so collect what it yields")
        if self.run_in == "thread" and is_async(self.fn):
            raise SetupError(f"{self.name} is async: it runs in the loop")

    def __copy__(self) -> Tool[P, T]:
        return self

    def __deepcopy__(self, _memo: object) -> Tool[P, T]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # A function that a decorator replaced does not pickle, and whoever reads a report elsewhere wants its facts.
        facts = (self.name, _elsewhere, self.effect, self.description, (), self.aliases, self.run_in, self.context)
        return Tool, (
            *facts,
            self.verify_with,
            self.schema or {"type": "object"},
            None,
            None,
            False,
            None,
            False,
            self.origin,
        )


def _is_name(name: object) -> bool:
    return type(name) is str and bool(name.strip())


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine, as far as can be told beforehand."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def default_run_in(function: Callable[..., Any]) -> RunIn:
    """Async functions run in the loop, sync ones in a worker thread."""
    return "loop" if is_async(function) else "thread"


def expected(reveal: Revealed) -> tuple[type[Exception], ...]:
    """The exception types that were declared. Raises SetupError for anything else."""
    types = reveal if isinstance(reveal, tuple) else (reveal,)
    given: tuple[Any, ...] = types
    for each in given:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise SetupError(f"reveal= takes exception types, not {each!r}")
    return types


def _origin(function: Callable[..., Any]) -> str:
    plain = unwrap(function) if callable(function) else function
    code = getattr(plain, "__code__", None)
    place = f" (line {code.co_firstlineno})" if code else ""
    return f"{getattr(plain, '__module__', '?')}.{getattr(plain, '__qualname__', type(plain).__name__)}{place}"


def _elsewhere(**_arguments: object) -> None:
    raise RuntimeError("this is a copy of a tool that came with a report: its function stayed where it was")
