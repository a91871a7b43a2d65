"""@tool: which functions become tools, what the tool keeps of its function, and what its options do."""

# A tool made of a function of any type has no type either.
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import anyio
import attrs
import pytest
from pydantic import Field
from returns.result import Failure, Success

from support import nothing
from toolcall_pipeline import Call, SetupError, TimedOut, Tool, ToolContext, ToolFailed, ToolRegistry, tool
from toolcall_pipeline.engine.retries import RetryPolicy
from toolcall_pipeline.middlewares import Retry, Timeout, standard


class Store:
    """A class whose methods are tools, bound."""

    def find(self, key: str) -> str:
        """Find an entry."""
        return f"{type(self).__name__}: {key}"

    @classmethod
    def count(cls, least: int) -> str:
        return f"{cls.__name__} {least}"

    @staticmethod
    def version(major: int) -> str:
        return f"v{major}"


def positions(*numbers: int) -> None: ...
def first_only(a: int, /) -> None: ...
def of_context(context: ToolContext, a: int) -> None: ...
def of_typed_context(context: ToolContext[Store], a: int) -> None: ...
def of_late_context(a: int, context: ToolContext | None = None) -> None: ...


def found_nowhere(a: Any) -> None: ...


found_nowhere.__annotations__ = {"a": "Missing"}


def make_local() -> Callable[..., Any]:
    class Local: ...

    def probe(a: Annotated[Local, "an argument"]) -> None: ...

    return probe


def make_self_local() -> Callable[..., Any]:
    def probe(self: int) -> None: ...

    return probe


UNCHECKED: Any = Store
OF_LATE_CONTEXT: Any = of_late_context
REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: tool(Store.find), r"find: self would be asked of the model; .*: tools\.tool\(Store\(\.\.\.\)\.find\)"),
    (lambda: tool(context=True)(UNCHECKED.find), r"find: self would be asked of the model"),
    (lambda: tool(vars(Store)["count"]), r"count: a classmethod has no class yet; .*: tool\(Class\.count\)"),
    (lambda: tool(positions), r"positions: \*numbers takes arguments by position, .*`numbers: list\[\.\.\.\]`"),
    (lambda: tool(first_only), "first_only: a is positional-only"),
    (lambda: tool(of_context), "of_context: context is a ToolContext, which needs the option context=True of @tool"),
    (lambda: tool(of_typed_context), "of_typed_context: context is a ToolContext, which needs the option context=True"),
    (lambda: tool(of_late_context), "context is a ToolContext, which needs the option context=True"),
    (lambda: tool(context=True)(OF_LATE_CONTEXT), "context is a ToolContext, which must be the first parameter"),
    (lambda: tool(make_local()), "probe: the type of a is not found: Local is no name of the module. Move Local out"),
    (lambda: tool(meta=UNCHECKED)(nothing), "nothing: `meta` must be a mapping, not"),
    (lambda: tool(timeout=0)(nothing), "nothing: `timeout` must be a number of seconds > 0 or None, not 0"),
    (lambda: tool(attempts=0)(nothing), "nothing: `attempts` must be an integer ≥ 1 or None, not 0"),
    (lambda: tool(output_schema=UNCHECKED)(nothing), "nothing: `output_schema` must be a JSON Schema"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_no_model_can_call_is_refused(make: Callable[[], object], message: str) -> None:
    """A function that no model can call is a SetupError when it is made a tool, with what to write instead."""
    with pytest.raises(SetupError, match=message):
        make()


def test_a_method_in_a_class_body_is_refused() -> None:
    """The decorator in a class body names the bound method that it cannot see yet."""
    with pytest.raises(SetupError, match=r"tools\.tool\(Sums\(\.\.\.\)\.add\)"):

        class Sums:  # pyright: ignore[reportUnusedClass]
            @tool(effect="read")
            def add(self, a: int) -> int:
                return a


async def test_bound_methods_are_tools() -> None:
    """Methods of an object and of a class, static methods, and functions that call a parameter self are tools."""
    tools = ToolRegistry()
    for method in (Store().find, Store.count, Store.version):
        tools.tool(method)
    tools.tool(name="probe")(make_self_local())
    run = standard(tools)
    assert await run.call("find", {"key": "a"}) == Success("Store: a")
    assert await run.call("count", {"least": 2}) == Success("Store 2")
    assert await run.call("version", {"major": 3}) == Success("v3")
    assert await run.call("probe", {"self": 3}) == Success(None)


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


def test_a_tool_looks_like_its_function() -> None:
    """Name, docstring, signature and the function itself are kept, so that tools for functions work."""

    @tool(name="other")
    async def fetch(url: str, limit: int = 3) -> str:
        """Fetch a page."""
        return url * limit

    async def plain(url: str, limit: int = 3) -> str:
        return url * limit

    looks: Any = fetch
    assert (looks.__name__, looks.__doc__, fetch.name) == ("fetch", "Fetch a page.", "other")
    assert inspect.signature(looks) == inspect.signature(plain)
    assert inspect.unwrap(looks) is fetch.fn
    assert inspect.iscoroutinefunction(looks.__wrapped__)
    assert inspect.getdoc(looks) == "Fetch a page."
    assert "FunctionTool" in repr(fetch)
    assert "tool made from a function" in str(type(fetch).__doc__)
    assert type(fetch).__name__ == "FunctionTool"
    assert not hasattr(type(fetch), "__wrapped__")


def test_the_tool_of_a_wrapper_has_the_parameters_of_what_it_wraps() -> None:
    """`*args` of a wrapper that says what it wraps are no parameters."""
    assert list(tool(wrapped(Store.version)).definition()["parameters"]["properties"]) == ["major"]


@attrs.frozen
class Books:
    name: str


async def test_a_context_has_the_type_of_its_deps_and_the_name_of_its_tool() -> None:
    """`ToolContext[Books]` is for the type checkers; one function may be several tools and ask which one it is."""
    tools = ToolRegistry()

    async def which(context: ToolContext[Books]) -> str:
        return f"{context.tool} of {context.deps.name}"

    for name in ("a", "b"):
        tools.tool(name=name, context=True)(which)
    run = standard(tools)
    assert await run.call("a", deps=Books("x")) == Success("a of x")
    assert await run.call("b", deps=Books("y")) == Success("b of y")


async def test_meta_and_output_schema_are_kept() -> None:
    """They are for whoever asks the tool, and shown to no model."""
    made = tool(meta={"category": "files"}, output_schema={"type": "null"})(nothing)
    assert (made.meta, made.output_schema) == ({"category": "files"}, {"type": "null"})
    assert set(made.definition()) == {"name", "description", "parameters"}
    raw = Tool.from_schema(name="x", parameters=None, handler=nothing, meta={"a": 1}, timeout=3, attempts=1)
    assert (raw.meta, raw.timeout, raw.attempts) == ({"a": 1}, 3, 1)


def flaky(tools: ToolRegistry, name: str, **options: Any) -> list[int]:
    """Register a tool that always fails with what may pass; each attempt is in the list."""
    attempts: list[int] = []

    @tools.tool(name=name, effect="read", context=True, **options)
    async def fail(context: ToolContext) -> None:
        attempts.append(context.attempt)
        raise ToolFailed("later", kind="transient")

    return attempts


async def test_a_tool_has_attempts_of_its_own() -> None:
    """`attempts=` of the tool comes before that of the stage, and after what the stage says of the tool by name."""
    tools = ToolRegistry()
    once, often, named = (
        flaky(tools, "once", attempts=1),
        flaky(tools, "often", attempts=4),
        flaky(tools, "named", attempts=4),
    )
    retry = Retry(attempts=2, first_delay=0, tools={"named": RetryPolicy(attempts=3)}, budget=None)
    run = standard(tools).replace("retry", retry)
    for name in ("once", "often", "named"):
        await run.call(name)
    assert (once, often, named) == ([1], [1, 2, 3, 4], [1, 2, 3])


async def test_a_tool_has_a_time_limit_of_its_own() -> None:
    """A tool with `timeout=` needs no stage; the limit that a stage has for the tool by name comes first."""
    tools = ToolRegistry()

    @tools.tool(effect="read", timeout=1e-3, attempts=1)
    async def hang() -> None:
        await anyio.sleep_forever()

    @tools.tool(effect="read")
    async def quick() -> str:
        return "done"

    run = standard(tools)
    assert await run.call("hang") == Failure(TimedOut(1e-3, landed="maybe"))
    assert await run.call("quick") == Success("done")
    named = await run.after("retry", Timeout(None, tools={"hang": 2e-3})).call("hang")
    assert named == Failure(TimedOut(2e-3, landed="maybe"))


async def test_tools_are_compiled_when_the_pipeline_is_built() -> None:
    """A type without a schema is a SetupError of `standard`, and no call waits for pydantic."""
    tools = ToolRegistry()

    @tools.tool
    async def good(a: Annotated[int, Field(ge=1)]) -> int:
        return a

    seen = [good.schema]
    standard(tools)
    seen.append(good.schema)
    assert [each is None for each in seen] == [True, False]

    @tools.tool
    async def later(a: int) -> int:
        return a

    assert await standard(tools.view({"later"})).call("later", {"a": 1}) == Success(1)

    tools.tool(name="bad")(found_nowhere)
    for _ in range(2):
        with pytest.raises(SetupError, match="name 'Missing' is not defined"):
            standard(tools)
    tools.unregister("bad")
    assert await standard(tools)(Call("good", {"a": 1})) == Success(1)


def documented_more(a: int, **filters: str) -> None:
    """Search.

    Args:
        a: One.
        **filters: Columns, with the text that each must have.
    """


def test_further_arguments_are_told() -> None:
    """What the docstring says of ``**filters`` stands in the schema, with their type."""
    shown = tool(documented_more).definition()["parameters"]
    assert shown["additionalProperties"] == {
        "type": "string",
        "description": "Columns, with the text that each must have.",
    }
