"""Tools: made of functions by @tool or of schemas by Tool.from_schema, and what is refused at set-up."""

# A tool made of a function of any type has no type either.
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from uuid import RFC_4122, UUID

import pytest
from returns.result import Success

from support import a_tool, nothing
from toolcall_pipeline import (
    Call,
    InvalidParams,
    Pipeline,
    SetupError,
    Stack,
    Tool,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    tool,
)
from toolcall_pipeline.engine.call import make_uuid
from toolcall_pipeline.middlewares import Available, Classify, Execute, Resolve, Validate


def read(path: str, limit: int = 10) -> str:
    """Read a file.

    As far as the limit.

    Args:
        path: Where it is.
        limit: How often.
    """
    return path * limit


async def fetch(url: str) -> str:
    """Fetch a page."""
    return url


async def without_docstring(a: int) -> int:
    return a


async def with_context(context: ToolContext, a: int = 0) -> ToolContext:
    return context


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Reader:
    """Reads below a root."""

    def __call__(self, path: str) -> str:
        """Read below the root."""
        return path

    def read(self, path: str, limit: int = 1) -> str:
        """Read once."""
        return path * limit

    async def fetch(self, url: str) -> str:
        return url


class Fetcher:
    async def __call__(self, url: str) -> str:
        return url


class Undocumented(Reader):
    def __call__(self, path: str) -> str:
        return path

    def read(self, path: str, limit: int = 1) -> str:
        return path


registry = ToolRegistry()
FORMS: dict[str, Tool[..., Any]] = {
    "bare": tool(read),
    "called": tool()(read),
    "with options": tool(effect="read", name="other")(read),
    "of a registry": registry.tool(read),
    "of a registry, with options": registry.tool(name="third", effect="keyed", context=True)(with_context),
    "of a schema": Tool.from_schema(name="raw", parameters=None, handler=read),
}


@pytest.mark.parametrize("made", [pytest.param(each, id=name) for name, each in FORMS.items()])
def test_every_form_makes_a_tool(made: Tool[..., Any]) -> None:
    """Every way of making a tool, with options or without, gives a Tool around the function."""
    assert isinstance(made, Tool)
    assert made.fn in (read, with_context)
    assert set(made.definition()) == {"name", "description", "parameters"}


def test_a_registrys_decorator_registers() -> None:
    """`@tools.tool` returns the tool and registers it."""
    assert registry.tools == {"read": FORMS["of a registry"], "third": FORMS["of a registry, with options"]}


def test_a_tool_changes_things_unless_it_says_otherwise() -> None:
    """The default effect is mutating: a tool is repeated only if its author declared that safe."""
    assert FORMS["bare"].effect == FORMS["of a schema"].effect == "mutating"
    assert FORMS["with options"].effect == "read"


async def test_a_tool_is_still_the_function() -> None:
    """Calling a tool calls its function: sync, async, or with a context that the caller made."""
    assert tool(read)("ab", limit=2) == "abab"
    assert await tool(fetch)("x") == "x"
    context = ToolContext("c1")
    assert await tool(context=True)(with_context)(context, a=1) is context
    assert tool(read).fn is read


@pytest.mark.parametrize(
    ("function", "run_in", "direct"),
    [
        pytest.param(read, "thread", False, id="sync function"),
        pytest.param(fetch, "loop", True, id="async function"),
        pytest.param(Reader(), "thread", False, id="sync object"),
        pytest.param(Fetcher(), "loop", True, id="async object"),
        pytest.param(Reader().read, "thread", False, id="sync method"),
        pytest.param(Reader().fetch, "loop", True, id="async method"),
        pytest.param(functools.partial(read, limit=1), "thread", False, id="sync partial"),
        pytest.param(functools.partial(fetch, url="x"), "loop", True, id="async partial"),
        pytest.param(wrapped(fetch), "thread", False, id="sync wrapper of an async function"),
    ],
)
def test_where_a_function_runs_by_default(function: Callable[..., Any], run_in: str, direct: bool) -> None:
    """A callable that is known to be async runs in the loop, any other in a thread."""
    made = tool(name="probe")(function)
    assert (made.run_in, made.direct) == (run_in, direct)
    raw = Tool.from_schema(name="probe", parameters=None, handler=function)
    assert (raw.run_in, raw.direct, raw.copies_direct) == (run_in, False, direct)  # its arguments may be of any kind


def test_a_sync_function_may_run_in_the_loop() -> None:
    """The author may choose: `run_in="loop"` is for a sync function that does not block."""
    assert tool(run_in="loop")(read).run_in == "loop"


async def answered(made: Tool[..., Any], **arguments: Any) -> Any:
    tools = ToolRegistry()
    tools.register(made)
    return await bare(tools)(Call(made.name, arguments, id="c1", principal="ann", deps="the caller's own"))


def bare(tools: ToolRegistry) -> Pipeline:
    return Stack().check(Resolve(tools)).check(Available(tools)).check(Validate()).wrap(Classify()).end(Execute())


@pytest.mark.parametrize(
    ("function", "arguments", "value"),
    [
        pytest.param(read, {"path": "a", "limit": 2}, "aa", id="function"),
        pytest.param(fetch, {"url": "a"}, "a", id="async function"),
        pytest.param(Reader(), {"path": "a"}, "a", id="object"),
        pytest.param(Fetcher(), {"url": "a"}, "a", id="async object"),
        pytest.param(Reader().read, {"path": "a", "limit": 3}, "aaa", id="method"),
        pytest.param(Reader().fetch, {"url": "a"}, "a", id="async method"),
        pytest.param(functools.partial(read, limit=3), {"path": "a"}, "aaa", id="partial"),
        pytest.param(functools.partial(read, "b"), {"limit": 2}, "bb", id="positional partial"),
        pytest.param(wrapped(fetch), {"url": "a"}, "a", id="sync wrapper of an async function"),
    ],
)
async def test_any_callable_runs_as_a_tool(
    function: Callable[..., Any], arguments: dict[str, Any], value: object
) -> None:
    """Functions, methods, objects, partials and wrappers give through a pipeline what they give when called."""
    assert await answered(tool(name="probe")(function), **arguments) == Success(value)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        pytest.param(read, "read", id="function"),
        pytest.param(Reader().read, "read", id="method"),
        pytest.param(wrapped(fetch), "fetch", id="wrapper"),
        pytest.param(Reader, "Reader", id="class"),
    ],
)
def test_a_tool_has_its_functions_name(function: Callable[..., Any], name: str) -> None:
    """Without `name=` a tool has the name of its function."""
    made = tool(function)
    assert made.name == name


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda: 1, id="lambda"),
        pytest.param(functools.partial(read, limit=1), id="partial"),
        pytest.param(Reader(), id="object"),
    ],
)
def test_a_callable_without_a_name_needs_one(function: Callable[..., Any]) -> None:
    """A lambda, a partial and an object need `name=`, and the error says so."""
    with pytest.raises(SetupError, match="`name`"):
        tool(function)
    assert tool(name="probe")(function).name == "probe"


@pytest.mark.parametrize(
    ("function", "description"),
    [
        pytest.param(read, "Read a file.\n\nAs far as the limit.", id="up to its sections"),
        pytest.param(fetch, "Fetch a page.", id="one line"),
        pytest.param(nothing, "Do nothing, successfully.", id="of a handler"),
        pytest.param(without_docstring, "", id="none"),
        pytest.param(wrapped(read), "Read a file.\n\nAs far as the limit.", id="wrapper"),
        pytest.param(functools.partial(read, limit=1), "Read a file.\n\nAs far as the limit.", id="partial"),
        pytest.param(Reader(), "Read below the root.", id="object: of its call"),
        pytest.param(Reader().read, "Read once.", id="method"),
        pytest.param(Undocumented().read, "Read once.", id="method: of the class above"),
        pytest.param(Reader, "Reads below a root.", id="class"),
    ],
)
def test_a_description_is_the_docstring_up_to_its_sections(function: Callable[..., Any], description: str) -> None:
    """The model is told what the author wrote about calling the tool, unless `description=` says otherwise."""
    assert tool(name="probe")(function).description == description
    assert tool(name="probe", description="Mine.")(function).description == "Mine."


async def test_a_context_tells_of_the_call() -> None:
    """With `context=True` a tool gets the call's id, attempt, key, caller and deps; the model sees none of it."""
    made = tool(context=True)(with_context)
    assert made.definition()["parameters"]["properties"] == {"a": {"type": "integer", "default": 0}}
    context: ToolContext = (await answered(made, a=1)).unwrap()
    assert (context.call_id, context.attempt, context.principal, context.deps) == ("c1", 1, "ann", "the caller's own")
    assert context.deadline is None
    assert context.idempotency_key
    assert "the caller's own" not in repr(context)


def test_one_call_has_one_idempotency_key() -> None:
    """Attempts of one call share a key, and calls do not; for a tool without a context no key is made."""
    one, other = (Call("probe").resolved(tool(context=True)(with_context)).validated({}) for _ in range(2))
    assert one.idempotency_key == one.next_attempt().idempotency_key != other.idempotency_key
    assert (one.attempt, one.next_attempt().attempt) == (1, 2)
    assert Call("probe").resolved(a_tool()).validated({}).idempotency_key == ""


def test_an_idempotency_key_is_a_random_uuid() -> None:
    """As ``str(uuid4())`` makes it, which some backends insist on; each of the four variants of its form occurs."""
    keys = [make_uuid() for _ in range(1000)]
    assert [(str(UUID(key)), UUID(key).version, UUID(key).variant) for key in keys] == [
        (key, 4, RFC_4122) for key in keys
    ]
    assert len(set(keys)) == 1000
    assert {key[19] for key in keys} == set("89ab")


async def test_progress_is_in_the_report() -> None:
    """The progress that a tool reports is in the report of the call; without a report it goes nowhere."""
    tools = ToolRegistry()

    @tools.tool(context=True)
    async def slow(context: ToolContext) -> str:
        context.progress(1, 2, "half")
        return "done"

    assert await bare(tools)(Call("slow")) == Success("done")
    report = await bare(tools).report(Call("slow"))
    assert [(each.done, each.total, each.message) for each in report.progress] == [(1, 2, "half")]


def positional_only(a: int, /, b: int) -> None: ...
def no_parameters() -> None: ...


unchecked: Any = tool  # the types of `tool` would refuse most of these mistakes
REFUSED: list[tuple[str, Callable[[], object], str]] = [
    ("keyed without a context", lambda: unchecked(effect="keyed")(fetch), "fetch: a keyed tool .*context=True"),
    ("context without a parameter", lambda: unchecked(context=True)(no_parameters), "no_parameters: .*first parameter"),
    ("positional-only", lambda: unchecked(positional_only), "positional_only: a is positional-only"),
    ("no such effect", lambda: unchecked(effect="write")(read), "read: `effect` must be .*, not 'write'"),
    ("no executor", lambda: unchecked(run_in="")(read), "read: `run_in` must be the name of an executor.* not ''"),
    ("async in a thread", lambda: unchecked(run_in="thread")(fetch), "fetch: `run_in` must not be 'thread'"),
    ("empty name", lambda: unchecked(name=" ")(read), "not ' '"),
    ("name that is no text", lambda: unchecked(name=3)(read), "not 3"),
    ("aliases that are one text", lambda: unchecked(aliases="rd")(read), "read: `aliases` must be a tuple .* not 'rd'"),
    ("an empty alias", lambda: unchecked(aliases=("",))(read), "read: `aliases`"),
    ("revealing no exception", lambda: unchecked(reveal=3)(read), "read: `reveal` must be an exception type .*not 3"),
    ("revealing interrupts", lambda: unchecked(reveal=KeyboardInterrupt)(read), "KeyboardInterrupt"),
    ("no function", lambda: unchecked(3), "not 3"),
    ("a tool of a tool", lambda: unchecked(a_tool()), "probe: this is a tool already"),
    ("no signature", lambda: unchecked(min), "min.* has no signature"),
    ("parameters that are no schema", lambda: raw([]), "probe: `parameters` .* not \\[\\]"),
    ("a schema that does not compile", lambda: raw({"type": "dict"}), "probe: .*dict"),
]


FLAGS = ("context", "polling", "hidden", "composite", "one_request")
OF_ANOTHER_TYPE = [
    *((flag, given, "a bool") for flag in FLAGS for given in ("no", 1, None)),
    *(("description", given, "a str") for given in (3, b"text", ["text"])),
    *(("verify_with", given, "a str or None") for given in (3, ["read"], True)),
]


@pytest.mark.parametrize(("option", "given", "allowed"), OF_ANOTHER_TYPE)
def test_an_option_of_another_type_is_refused(option: str, given: Any, allowed: str) -> None:
    """Text that says "no" is true, so it would switch an option on; `one_request` lets a call run again."""
    told = f"^read: `{option}` must be {allowed}, not "
    with pytest.raises(SetupError, match=told):
        unchecked(**{option: given})(read)
    with pytest.raises(SetupError, match=told):
        Tool.from_schema(name="read", parameters={"type": "object"}, handler=read, **{option: given})


def raw(parameters: Any) -> Tool[..., Any]:
    return Tool.from_schema(name="probe", parameters=parameters, handler=nothing)


@pytest.mark.parametrize(("make", "message"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_a_contradiction_is_refused_when_the_tool_is_made(make: Callable[[], object], message: str) -> None:
    """A mistake of the author's raises at once, and the error names the tool and what is wrong with it."""
    with pytest.raises(SetupError, match=message):
        make()


@pytest.mark.parametrize(
    ("reveal", "types"),
    [
        (LookupError, (LookupError,)),
        ((LookupError, OSError), (LookupError, OSError)),
        ((), ()),
    ],
)
def test_revealed_exceptions_are_one_or_several(reveal: Any, types: tuple[type[Exception], ...]) -> None:
    """`reveal=` takes an exception type or a tuple of them."""
    assert tool(reveal=reveal)(read).reveal == a_tool(reveal=reveal).reveal == types


def test_a_tool_of_a_schema_takes_any_object_by_default() -> None:
    """`parameters=None` accepts every object."""
    made = raw(None)
    assert made.parse({"a": [None]}) == {"a": [None]}
    assert made.definition() == {"name": "probe", "description": "", "parameters": {"type": "object"}}


def test_a_definition_is_the_callers_own() -> None:
    """Changing a definition, or the schema that a tool was made of, changes nothing of the tool."""
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    of_schema = raw(schema)
    for made in (of_schema, tool(read)):
        shown = made.definition()["parameters"]
        shown["properties"].clear()
        shown["required"].clear()
        assert made.definition()["parameters"]["properties"]
        assert made.definition()["parameters"]["required"]
    schema["required"].clear()
    assert isinstance(of_schema.parse({}), InvalidParams)


@pytest.mark.parametrize("effect", ["read", "idempotent", "keyed", "mutating"])
def test_the_facts_of_a_tool_pickle(effect: Any) -> None:
    """A tool that travels with a report keeps everything but its function, and its schema still parses."""
    made = tool(effect=effect, context=True, aliases=("other",), verify_with="look", description="Mine.")(with_context)
    schema = made.definition()["parameters"]
    copy = pickle.loads(pickle.dumps(made))
    facts = ("name", "effect", "description", "aliases", "verify_with", "context", "origin")
    assert [getattr(copy, fact) for fact in facts] == [getattr(made, fact) for fact in facts]
    assert copy.definition()["parameters"] == schema
    assert isinstance(copy.parse({"a": "1"}), InvalidParams)
    with pytest.raises(RuntimeError, match="its function was not pickled"):
        copy.fn()


@pytest.mark.parametrize(
    ("function", "origin"),
    [
        pytest.param(read, "read", id="function"),
        pytest.param(Reader().read, "Reader.read", id="method"),
        pytest.param(Reader(), "Reader.__call__", id="object"),
        pytest.param(functools.partial(read, limit=1), "read", id="partial"),
        pytest.param(wrapped(read), "read", id="wrapper"),
    ],
)
def test_a_tool_knows_where_it_was_defined(function: Callable[..., Any], origin: str) -> None:
    """The origin is where the code that runs was written, whatever is wrapped around it."""
    assert tool(name="probe")(function).origin.startswith(f"{read.__module__}.{origin} (line ")


@pytest.mark.parametrize(("landed", "word"), [(None, "maybe"), (True, "yes"), (False, "no")])
def test_a_tools_own_failure_says_what_its_author_knows(landed: bool | None, word: str) -> None:
    """`ToolFailed` holds text, kind, parameter and suggestion; `landed` is "maybe" unless the author says."""
    failed = ToolFailed("No.", parameter="a", suggestion="Try b.", retry_after=3, landed=landed)
    assert (failed.message, failed.kind, failed.retry_after, failed.landed) == ("No.", "execution", 3, word)
    assert (failed.details.parameter, failed.details.suggestion) == ("a", "Try b.")


@pytest.mark.long
def test_a_thousand_tools_import_no_validator() -> None:
    """Schemas are made at first use: registering function tools imports neither pydantic nor griffe."""
    code = """
import sys
from toolcall_pipeline import ToolRegistry
tools = ToolRegistry()
for n in range(1000):
    def probe(a: int, b: list[str] | None = None) -> str:
        '''Do it.

        Args:
            a: A number.
        '''
        return ""
    tools.tool(name=f"probe_{n}")(probe)
tools.disable("probe_7")
print(len(tools), {"pydantic", "pydantic_core", "griffe", "jsonschema_rs"} & set(sys.modules))
tools.tools["probe_3"].parse({"a": 1})
print("pydantic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["1000 set()", "True"]


def yields() -> Any:
    yield 1


async def yields_later() -> Any:
    yield 1


@pytest.mark.parametrize("fn", [yields, yields_later, functools.partial(yields)], ids=["sync", "async", "partial"])
def test_a_generator_is_refused(fn: Any) -> None:
    """A tool returns one value: a generator would be returned before it ran."""
    with pytest.raises(SetupError, match="must return one value"):
        tool(name="yields")(fn)
    with pytest.raises(SetupError, match="must return one value"):
        Tool.from_schema(name="yields", parameters=None, handler=fn)
