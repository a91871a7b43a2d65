"""CheckResult: what a tool returns, against its output_schema, its annotation and its ensure."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import anyio
import jsonschema_rs
import pytest
from pydantic import BaseModel
from returns.result import Failure, Success
from typing_extensions import TypedDict

from scripted_mcp import ScriptedServer, add, definition
from support import PATIENT
from toolcall_pipeline import Call, Effect, ExecutionFailed, SetupError, Stack, Tool, ToolRegistry, render
from toolcall_pipeline.engine.compose import Pipeline
from toolcall_pipeline.middlewares import Cache, CheckResult, Execute, Resolve, Retry, Shape, Validate, standard
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.testing import FakeClock
from toolcall_pipeline.tools.output_forms import make_form

pytestmark = pytest.mark.anyio
DONE = "The call has taken effect, so do not send it again."


class Model(BaseModel):
    """A model of pydantic."""

    count: int


@dataclass
class Data:
    """A dataclass."""

    count: int


class Row(TypedDict):
    """A typed dict."""

    count: int


@dataclass
class Once:
    """A tool that returns one value, and counts its runs."""

    value: Any
    runs: int = 0

    async def run(self) -> Any:
        """Return it."""
        self.runs += 1
        return self.value


SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
WORDS = {"type": "array", "items": {"type": "string", "format": "date"}}
WRONG_TYPE: Any = ("1",)
RIGHT: list[tuple[Any, Any]] = [
    (SCHEMA, {"count": 1}),
    (SCHEMA, Model(count=1)),
    (SCHEMA, Data(1)),
    (SCHEMA, '{"count": 1}'),
    (SCHEMA, {"count": 10**400}),
    (WORDS, ["2026-01-31"]),
    ({"type": "integer"}, 3),
    (list[Model], [Model(count=1)]),
    (Row, {"count": 1}),
    (Literal["a", "b"], "a"),
    (str, 5),
]
WRONG: list[tuple[Any, Any, str]] = [
    (SCHEMA, {}, "result.count is missing"),
    (SCHEMA, {"count": "1"}, "result.count must be an integer, not a string"),
    (SCHEMA, Data(*WRONG_TYPE), "result.count must be an integer, not a string"),
    (SCHEMA, '{"count": null}', "result.count must be an integer, not null"),
    (SCHEMA, "done", "result must be an object, not a string"),
    (SCHEMA, None, "result must be an object, not null"),
    (SCHEMA, [1], "result must be an object, not an array"),
    (SCHEMA, {"count": "\ud800"}, "result.count must be an integer, not a string"),
    (WORDS, ["2026-02-30"], "result[0] must be a date YYYY-MM-DD"),
    ({"type": "integer"}, float("nan"), "result must be an integer"),
    (Model, {"count": "x"}, "result.count must be an integer, not a string"),
    (Data, {}, "result.count is missing"),
    (Row, {"count": None}, "result.count must be an integer, not null"),
    (list[Model], [{"count": 1}, {"count": "x"}], "result[1].count must be an integer"),
    (dict[str, int], {"a": "x"}, "result.a must be an integer"),
    (Literal["a", "b"], "c", "result must be 'a' or 'b'"),
]


def _pipeline(once: Once, form: Any, effect: Effect = "read", ensure: Any = None, **options: Any) -> Pipeline:
    """A pipeline of one tool whose result must have a form: a schema, or an annotation."""
    tools = ToolRegistry()
    schema: dict[str, Any] | None = cast("dict[str, Any]", form) if isinstance(form, dict) else None
    is_schema = schema is not None

    async def probe() -> Any:
        return await once.run()

    probe.__annotations__["return"] = Any if is_schema else form
    tools.tool(effect=effect, ensure=ensure, output_schema=schema)(probe)
    made = standard(tools, **options)
    if is_schema or ensure is not None:
        return made
    return made.after("retry", CheckResult(returns=True))


@pytest.mark.parametrize(("form", "value"), RIGHT)
async def test_a_result_that_fits_passes(form: Any, value: object) -> None:
    """A result of the declared form is the same object, whatever Python type carries it."""
    outcome = await _pipeline(Once(value), form).call("probe", {})
    assert isinstance(outcome, Success)
    assert outcome.unwrap() is value


@pytest.mark.parametrize("effect", ["read", "idempotent", "mutating"])
@pytest.mark.parametrize(("form", "value", "told"), WRONG)
async def test_a_wrong_result_is_told(form: Any, value: object, told: str, effect: Effect) -> None:
    """A result of another form is `execution` with what is wrong; the tool ran once, and the model reads it."""
    once = Once(value)
    text = render(await _pipeline(once, form, effect).call("probe", {}))
    assert text.startswith(f"Error: The tool ran, but its result is wrong: {told}")
    assert (DONE in text) == (effect != "read")
    assert once.runs == 1


@pytest.mark.parametrize("stored", [False, True], ids=["process", "ledger"])
@pytest.mark.parametrize("effect", [each for each in get_args(Effect) if each != "keyed"])
@pytest.mark.parametrize("said", ["it is wrong", ZeroDivisionError, 5])
async def test_the_effect_of_a_wrong_result_is_known(said: Any, effect: Effect, *, stored: bool) -> None:
    """The kind is execution, or internal for a bug of ensure; the same delivery is answered, and an equal call runs.

    Whichever of them it is, the model reads that the call has taken effect.
    """

    def ensure(_params: Mapping[str, Any], _value: object) -> Any:
        if said is ZeroDivisionError:
            raise ZeroDivisionError
        return said

    once = Once(1)
    store = {"store": Memory()} if stored else {}
    async with _pipeline(once, dict[str, int], effect, ensure, **store) as pipeline:
        run = pipeline.with_(conversation="c", principal="p")
        outcomes = [await run.call("probe", {}, id=id_) for id_ in ("1", "1", "2")]
    for profile in ("default", "llmproc", "rfc015", "structured", "agentopia"):
        assert [DONE in render(each, profile=profile) for each in outcomes] == [effect != "read"] * 3
    assert DONE in render(pickle.loads(pickle.dumps(outcomes[-1]))) or effect == "read"
    kinds = {outcome.failure().kind for outcome in outcomes if isinstance(outcome, Failure)}
    assert kinds == {"execution" if isinstance(said, str) else "internal"}
    assert len(outcomes) == 3
    assert once.runs == (2 if stored and effect != "read" else 3)


def fail(*_: object) -> Any:
    raise ZeroDivisionError


# A text whose methods have bugs, and what is no text, though its class says so.
Lying: Any = type("Lying", (str,), dict.fromkeys(("__str__", "__len__", "__format__", "rstrip"), fail))
Pretending: Any = type("Pretending", (), {"__class__": property(lambda _: str)})


@pytest.mark.parametrize(
    ("said", "kind"), [(Lying("wrong"), "execution"), (Pretending(), "internal")], ids=["lying", "pretending"]
)
async def test_an_odd_text_hides_no_effect(said: Any, kind: str) -> None:
    """A text whose methods fail is read, what only pretends to be one is a bug; the effect is known in both cases."""

    def ensure(_params: Mapping[str, Any], _value: object) -> Any:
        return said

    outcome = await _pipeline(Once(1), int, "mutating", ensure).call("probe", {}, conversation="c")
    assert isinstance(outcome, Failure)
    assert outcome.failure().kind == kind


async def test_an_ensure_that_does_not_answer_hangs_no_call() -> None:
    """After the tool's verify_timeout it is a bug of its author, and the effect is known."""
    clock, tools = FakeClock(), ToolRegistry()

    async def never(_params: Mapping[str, Any], _value: object) -> str | None:
        clock.advance(5)
        await anyio.sleep_forever()
        return None

    tools.tool(ensure=never, verify_timeout=5)(echo)
    with clock, anyio.fail_after(PATIENT):
        outcome = await standard(tools).call("echo", {"n": 1}, conversation="c")
    assert isinstance(outcome, Failure)
    assert outcome.failure().kind == "internal"


async def test_ensure_may_be_async_and_reads_params_and_value() -> None:
    """An async ensure is awaited; None and an empty text say that nothing is wrong."""
    asked: list[tuple[Mapping[str, Any], object]] = []

    async def ensure(params: Mapping[str, Any], value: object) -> str | None:
        asked.append((params, value))
        return {1: None, 2: ""}.get(len(asked), "wrong")

    tools = ToolRegistry()
    tools.tool(effect="read", ensure=ensure)(echo)
    outcomes = [await standard(tools).call("echo", {"n": n}) for n in range(3)]
    assert asked == [({"n": n}, n) for n in range(3)]
    assert outcomes == [Success(0), Success(1), Failure(ExecutionFailed("wrong"))]


async def echo(n: int) -> int:
    """Return the number."""
    return n


async def test_the_structured_content_of_a_server_is_checked() -> None:
    """A tool of another server is checked by its outputSchema, where it sends structured content."""
    for structured, told in (({"count": 1}, '{"count": 1}'), ({"count": "1"}, "Error: The tool ran"), (None, "said")):

        async def give(_name: str, _arguments: Any, _tell: Any, sent: Any = structured) -> dict[str, Any]:
            content = {"content": [{"type": "text", "text": "said"}], "isError": False}
            return content if sent is None else {**content, "structuredContent": sent}

        tools = ToolRegistry()
        async with add(tools, ScriptedServer(definition(outputSchema=SCHEMA), answer=give)):
            assert render(await standard(tools).call("read", {})).startswith(told)


async def test_a_result_whose_check_takes_too_long_is_not_checked() -> None:
    """A union that holds itself in two forms is read again at each level: such a result passes, in no time."""
    node = {"anyOf": [{"type": "object", "properties": {"n": {"$ref": "#/$defs/node"}, k: {}}} for k in "ab"]}
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    deep: Any = 1
    for _ in range(60):
        deep = {"n": deep}
    assert await _pipeline(Once(deep), schema).call("probe", {}) == Success(deep)
    text = render(await _pipeline(Once({"n": {"n": 1}}), schema).call("probe", {}))
    assert text.startswith("Error: The tool ran, but its result is wrong: result.n")


NUMBER = {"type": "integer"}
HOLDING_THEMSELVES: dict[str, dict[str, Any]] = {
    "the root": {"type": "array", "items": {"anyOf": [NUMBER, {"$ref": "#"}]}},
    "the root from a shared part": {
        "anyOf": [NUMBER, {"$ref": "#/$defs/list"}],
        "$defs": {"list": {"type": "array", "items": {"$ref": "#"}}},
    },
    "a part of the root": {"type": "array", "prefixItems": [NUMBER], "items": {"$ref": "#/prefixItems/0"}},
    "older definitions": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"list": {"type": "array", "items": {"anyOf": [NUMBER, {"$ref": "#/definitions/list"}]}}},
        "anyOf": [{"$ref": "#/definitions/list"}],
    },
    "a recursive reference": {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "anyOf": [NUMBER, {"type": "array", "items": {"$recursiveRef": "#"}}],
    },
    "a dynamic reference": {"anyOf": [NUMBER, {"type": "array", "items": {"$dynamicRef": "#"}}]},
    "an anchor": {"$anchor": "all", "anyOf": [NUMBER, {"type": "array", "items": {"$ref": "#all"}}]},
    "a schema with an id": {
        "$id": "https://example.org/tree",
        "anyOf": [NUMBER, {"$ref": "#/$defs/list"}],
        "$defs": {"list": {"type": "array", "items": {"$ref": "#"}}},
    },
    "a part with an id": {
        "type": "array",
        "items": {"$id": "https://example.org/part", "anyOf": [NUMBER, {"type": "array", "items": {"$ref": "#"}}]},
    },
    "names like keywords": {
        "anyOf": [
            {"type": "object", "properties": {"$ref": NUMBER, "const": {"$ref": "#"}}, "additionalProperties": False},
            {"const": {"$ref": "#"}},
            {"enum": [{"const": {"$ref": "#"}}]},
        ]
    },
}
LISTS: list[Any] = [1, "text", [], [1], [[1], 2], [["text"]], [1, [2, [3]]]]
OBJECTS = [{}, {"result": 1}, {"result": [1]}, {"$ref": 1}, {"$ref": "#"}, {"const": {"$ref": 1}}, {"const": "text"}]
RESULTS = [*LISTS, *OBJECTS, {"const": {"$ref": "#"}}]


@pytest.mark.parametrize("schema", HOLDING_THEMSELVES.values(), ids=HOLDING_THEMSELVES)
def test_a_schema_that_refers_to_itself_admits_what_it_says(schema: dict[str, Any]) -> None:
    """What is no object stands under ``result`` for a client, and the references of its schema lead where they led."""
    validator = jsonschema_rs.validator_for(schema, offline=True)
    form = make_form(schema, "probe")
    assert form.is_wrapped
    for value in RESULTS:
        assert (form.find_problems(value) == ()) is validator.is_valid(value), value


def test_ensure_must_be_a_function() -> None:
    """Something that cannot be called is a SetupError when the tool is made."""
    wrong: Any = "n > 0"
    with pytest.raises(SetupError, match="ensure"):
        ToolRegistry().tool(ensure=wrong)(echo)


NO_SCHEMAS: list[dict[Any, Any]] = [
    {"type": "nonsense"},
    {"properties": 5},
    {"type": "object", "properties": {"n": {"type": "nonsense"}}},
    {"items": [{}]},
    {"required": [1]},
    {"$ref": "#/$defs/none"},
    {"$ref": "http://127.0.0.1/schema"},
    {"type": "string", "pattern": "("},
    {"const": object()},
    {"const": "\ud800"},
    {1: 2},
]


@pytest.mark.parametrize("schema", NO_SCHEMAS, ids=lambda schema: ascii(schema)[:30])
def test_a_schema_of_results_that_is_none_is_refused(schema: dict[Any, Any]) -> None:
    """It is a SetupError when the tool is made, however it is made, as for its parameters."""
    make: list[Callable[[], object]] = [
        lambda: ToolRegistry().tool(output_schema=schema)(echo),
        lambda: Tool.from_schema(name="echo", parameters=None, handler=echo, output_schema=schema),
    ]
    for each in make:
        with pytest.raises(SetupError, match="echo"):
            each()


@pytest.mark.parametrize("schema", NO_SCHEMAS[:3], ids=ascii)
async def test_a_server_whose_schema_of_results_is_none_is_served(
    schema: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Its tool is offered without that schema, and the log says so."""

    async def give(_name: str, _arguments: Any, _tell: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "said"}], "isError": False, "structuredContent": {"count": 1}}

    tools = ToolRegistry()
    async with add(tools, ScriptedServer(definition(outputSchema=schema), answer=give)):
        assert isinstance(await standard(tools).call("read", {}), Success)
    assert "the output schema of read is left out" in caplog.text


def test_it_stands_where_no_wrong_result_is_kept() -> None:
    """`standard` has the stage where a tool declares something, and a cache inside of it is refused."""
    tools = ToolRegistry()
    tools.tool(echo)
    assert "check_result" not in standard(tools).stages
    tools.tool(name="other", output_schema={"type": "integer"})(echo)
    made = standard(tools, store=Memory(), timeout=5).before("ledger", Cache(60)).before("retry", Shape())
    inner = ("cache", "ledger", "shape", "retry", "check_result", "timeout", "classify", "execute")
    assert made.stages[-len(inner) :] == inner
    with pytest.raises(SetupError, match="cache"):
        standard(tools).after("check_result", Cache(60))


def test_no_ensure_goes_unasked() -> None:
    """A pipeline without the stage, over a tool that has an ensure, is a SetupError that says how to put it in."""
    tools = ToolRegistry()
    tools.tool(ensure=lambda _params, _value: None)(echo)
    with pytest.raises(SetupError, match=r"CheckResult\(\)"):
        standard(tools).without("check_result")


def _say_wrong(_params: Mapping[str, Any], _value: object) -> str:
    return "wrong"


ASKS: list[dict[str, Any]] = [{"output_schema": {"type": "integer"}}, {"ensure": _say_wrong}]


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("asks", ASKS)
async def test_a_tool_that_is_registered_later_is_checked(asks: dict[str, Any], *, edited: bool) -> None:
    """What a tool declares of its result holds whenever it was registered, in bound and in edited pipelines too."""
    tools = ToolRegistry()
    tools.tool(name="first")(echo)
    made = standard(tools, timeout=5)
    made = made.replace("retry", Retry(2)) if edited else made
    bound = made.with_(principal="p")
    assert "check_result" not in made.stages
    tools.tool(name="later", effect="read", **asks)(Once("text").run)
    assert made.stages[-5:] == bound.stages[-5:] == ("retry", "check_result", "timeout", "classify", "execute")
    for pipeline in (made, bound):
        outcome = await pipeline.call("later", {})
        assert isinstance(outcome, Failure)
        assert outcome.failure().kind == "execution"
        report = await pipeline.report(Call("later", {}))
        assert isinstance(report.outcome, Failure)


async def test_without_the_stage_a_later_ensure_closes_its_tool() -> None:
    """A pipeline of one's own that would not ask it does not run the body; its other tools run on."""
    tools = ToolRegistry()
    tools.tool(name="first", effect="read")(echo)
    made = Stack().check(Resolve(tools)).check(Validate()).end(Execute())
    ran = Once("text")
    tools.tool(name="later", effect="read", ensure=_say_wrong)(ran.run)
    outcome = await made.call("later", {})
    assert isinstance(outcome, Failure)
    assert outcome.failure().kind == "configuration"
    assert ran.runs == 0
    assert isinstance(await made.call("first", {"n": 1}), Success)


FORMATS: dict[str, tuple[list[str], list[str]]] = {
    "date": (["2026-01-31"], ["2026-02-30", "today"]),
    "date-time": (
        ["2026-01-31T09:00:00Z", "2026-01-31 09:00", "2026-01-31T09:00:00.5+02:00", "2016-12-31T23:59:60Z"],
        ["2026-01-31", "2026-02-30T00:00:00Z", "2026-01-31T25:00:00Z"],
    ),
    "time": (["09:00:00Z", "09:00"], ["9 am", "24:00:00"]),
    "duration": (["P1D"], ["1 day"]),
    "email": (["a@example.com"], ["a"]),
    "hostname": (["example.com"], ["-a-"]),
    "ipv4": (["192.0.2.1"], ["192.0.2.256"]),
    "ipv6": (["2001:db8::1"], ["g::1"]),
    "uri": (["https://example.com"], ["a b"]),
    "uuid": (["00000000-0000-4000-8000-000000000000"], ["12"]),
    "json-pointer": (["/a"], ["a"]),
    "regex": (["(?P<a>a++)"], []),
    "binary": (["anything"], []),
}


@pytest.mark.parametrize("name", FORMATS)
def test_the_format_of_a_raw_schema_is_asserted(name: str) -> None:
    """A text of another format is refused, and the example of the tool has the right one."""
    handler: Callable[..., object] = echo
    schema = {"type": "object", "properties": {"n": {"type": "string", "format": name}}, "required": ["n"]}
    made = Tool.from_schema(name="t", parameters=schema, handler=handler)
    right, wrong = FORMATS[name]
    assert [text for text in right if made.parse({"n": text}) != {"n": text}] == []
    assert [text for text in wrong if made.parse({"n": text}) == {"n": text}] == []
    assert made.parameters.example()
