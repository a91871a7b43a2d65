"""Names that no name is near: what the arguments, a wrapper or a doubling say about the tool that was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

import fake_providers as fake
from support import a_tool
from toolcall_pipeline import (
    Call,
    Effect,
    Pipeline,
    ResolvedCall,
    Success,
    Tool,
    ToolRegistry,
    UnknownTool,
    gather_sync,
    is_failure,
)
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.middlewares import Resolve, standard

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


async def handle(**arguments: object) -> object:
    """Return what was sent."""
    return arguments


def schema_tool(name: str, *required: str, effect: Effect = "read", **optional: Any) -> Tool[..., Any]:
    """A tool that takes texts, and further parameters that may be left out."""
    schema = {
        "type": "object",
        "properties": {**dict.fromkeys(required, TEXT), **optional},
        "required": list(required),
    }
    return Tool.from_schema(name=name, parameters=schema, handler=handle, effect=effect)


def offer(*tools: Tool[..., Any]) -> ToolRegistry:
    """A registry with these tools."""
    registry = ToolRegistry()
    for tool in tools:
        registry.register(tool)
    return registry


def suggested(registry: ToolRegistry, name: str, arguments: object) -> tuple[str, ...]:
    """The names in the refusal of a call. No tool runs under such a name."""
    outcome: Any = Resolve(registry)(Call(name, arguments))
    assert is_failure(outcome)
    error = outcome.failure()
    assert isinstance(error, UnknownTool)
    return error.suggestions


WEATHER = schema_tool("weather_report", "city", days=NUMBER)
FOUND: dict[str, tuple[list[Tool[..., Any]], object]] = {
    "all that is required": ([WEATHER], {"city": "Oslo"}),
    "and what is optional": ([WEATHER], {"city": "Oslo", "days": 3}),
    "as text": ([WEATHER], '{"city": "Oslo", "days": 3}'),
    "others take other names": ([WEATHER, schema_tool("stocks", "symbol"), a_tool("clock")], {"city": "Oslo"}),
    "others require more": ([WEATHER, schema_tool("hotels", "city", "stars")], {"city": "Oslo"}),
    "others take other values": (
        [WEATHER, schema_tool("hotels", "city", days={"type": "array"})],
        {"city": "Oslo", "days": 3},
    ),
}


@pytest.mark.parametrize(("tools", "arguments"), FOUND.values(), ids=FOUND)
def test_the_one_tool_that_takes_what_was_sent_is_suggested(tools: list[Tool[..., Any]], arguments: object) -> None:
    """All required parameters are there, none is undeclared, the values validate, and no other tool takes them."""
    assert suggested(offer(*tools), "sky_tomorrow", arguments) == ("weather_report",)


NOT_FOUND: dict[str, tuple[list[Tool[..., Any]], str, object]] = {
    "nothing was sent": ([a_tool("clock"), schema_tool("log", text=TEXT)], "zzz_qqq", {}),
    "one is missing": ([schema_tool("hotels", "city", "stars")], "zzz_qqq", {"city": "Oslo"}),
    "one is undeclared": ([WEATHER], "zzz_qqq", {"city": "Oslo", "zip": "1"}),
    "a value is wrong": ([WEATHER], "zzz_qqq", {"city": "Oslo", "days": "x"}),
    "two tools take it": ([WEATHER, schema_tool("hotels", "city")], "zzz_qqq", {"city": "Oslo"}),
    "no object": ([WEATHER], "zzz_qqq", '["city"]'),
    "no JSON": ([WEATHER], "zzz_qqq", '{"city": '),
    "too long": ([WEATHER], "zzz_qqq", {"city": "x" * 30_000}),
    "any object is taken": ([Tool.from_schema(name="any", parameters=None, handler=handle)], "zzz_qqq", {"a": 1}),
    "a sibling": ([schema_tool("get_user", "key")], "get_invoice", {"key": "7"}),
    "a sibling of more words": ([schema_tool("area_of_a_circle", "radius")], "area_of_two_spheres", {"radius": "7"}),
    "the opposite": ([schema_tool("unlock_door", "door_no")], "lock_all", {"door_no": "7"}),
    "a look-up, and a change": (
        [schema_tool("refund", "order_no", effect="mutating")],
        "check_money",
        {"order_no": "7"},
    ),
    "a look-up by its last word": (
        [schema_tool("refund", "order_no", effect="idempotent")],
        "parcel_status",
        {"order_no": "7"},
    ),
    "a look-up, and a name of a change": ([schema_tool("delete_row", "order_no")], "find_parcel", {"order_no": "7"}),
    "a change, and a look-up": ([schema_tool("get_row", "order_no")], "delete_parcel", {"order_no": "7"}),
    "words of one command line": (
        [schema_tool("cp", "source", "to", effect="mutating")],
        "mv",
        {"source": "a", "to": "b"},
    ),
    "two commands": ([schema_tool("gcd", "one", "two")], "lcm", {"one": "a", "two": "b"}),
    **{
        f"one parameter of many tools, {name}": ([schema_tool("weather_report", name)], "zzz_qqq", {name: "x"})
        for name in ("query", "path", "id", "name", "input")
    },
}


@pytest.mark.parametrize(("tools", "sent", "arguments"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_what_may_mean_another_tool_suggests_none(tools: list[Tool[..., Any]], sent: str, arguments: object) -> None:
    """A wrong suggestion costs more than none."""
    assert suggested(offer(*tools), sent, arguments) == ()


def test_a_common_parameter_beside_another_one_says_enough() -> None:
    """Only alone it does not: two parameters are taken by few tools."""
    assert suggested(offer(schema_tool("weather_report", "query", "days")), "sky", {"query": "a", "days": "b"})


def test_a_near_name_comes_first() -> None:
    """By shape is the last way: where a name is near, what was sent is not looked at."""
    tools = offer(WEATHER, schema_tool("sky_tonight", "place"))
    assert suggested(tools, "sky_tonigt", {"city": "Oslo"}) == ("sky_tonight",)


def test_only_open_tools_are_suggested() -> None:
    """A tool that is closed is not, and the one that is left then is."""
    tools = offer(WEATHER, schema_tool("hotels", "city"))
    resolve = Resolve(tools)
    outcomes: list[Any] = []
    for change in (tools.disable, tools.enable):
        change("hotels")
        outcomes.append(resolve(Call("zzz_qqq", {"city": "Oslo"})))
    assert [each.failure().suggestions for each in outcomes] == [("weather_report",), ()]


def test_a_validator_that_raises_suggests_nothing() -> None:
    """The code of a tool's author, and a tool that cannot be compiled, cannot make the search fail."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def weather_report(city: Bad, days: int = 1) -> None: ...

    broken.__annotations__["town"] = "Missing"
    tools.tool(broken)
    assert suggested(tools, "zzz_qqq", {"city": "Oslo"}) == ()


async def broken(town: str) -> None:
    """A tool whose parameter gets a type that is not found."""


class Bad:
    """A type whose validation raises."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        from pydantic_core import core_schema

        def fail(_value: object) -> Any:
            raise ZeroDivisionError

        return core_schema.no_info_plain_validator_function(fail, metadata={})

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: object, _handler: object) -> Any:
        return {"type": "string"}


def test_among_many_tools_of_one_shape_none_is_asked() -> None:
    """The work of a call is bounded: of a thousand tools that take these names no schema is asked."""
    asked: list[object] = []

    def parse(arguments: object) -> dict[str, Any]:
        asked.append(arguments)
        return {}

    tools = ToolRegistry()
    for number in range(1_000):
        tool = schema_tool(f"tool_{number}_of_many", "city")
        tool.compile()
        tool.parse = parse
        tools.register(tool)
    assert suggested(tools, "zzz_qqq", {"city": "Oslo"}) == ()
    assert asked == []


def test_the_values_of_each_call_are_judged_anew() -> None:
    """Of the names that were sent it is remembered which tools may take them, and of the values nothing."""
    resolve = Resolve(offer(WEATHER, schema_tool("hotels", "city", days={"type": "array"})))
    outcomes: list[Any] = [resolve(Call("zzz_qqq", {"city": "Oslo", "days": days})) for days in (3, [3], "x", 3)]
    weather = ("weather_report",)
    assert [each.failure().suggestions for each in outcomes] == [weather, ("hotels",), (), weather]


def test_tools_with_equal_parameters_are_not_asked() -> None:
    """Both would take the arguments, or none of them."""
    asked: list[object] = []

    def parse(arguments: object) -> dict[str, Any]:
        asked.append(arguments)
        return {}

    twins = [schema_tool(name, "city") for name in ("weather_report", "hotels")]
    for tool in twins:
        tool.compile()
        tool.parse = parse
    assert suggested(offer(*twins), "zzz_qqq", {"city": "Oslo"}) == ()
    assert asked == []


PREFIXED: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "hyphen": (("filesystem-edit_file", "filesystem-read_file"), "excel-edit_file", ("filesystem-edit_file",)),
    "another separator": (("fs__edit_file", "fs__read_file"), "excel-edit_file", ("fs__edit_file",)),
    "no prefix": (("edit_file", "read_file"), "excel-edit_file", ("edit_file",)),
    "dot": (("slack.send_message", "mail.send"), "teams.send_message", ("slack.send_message",)),
    "several": (("a1-find_issues", "b2-find_issues"), "jira-find_issues", ("a1-find_issues", "b2-find_issues")),
    "a hyphen between words": (("read-file", "write-file"), "list-file", ()),
    "doubled": (("read_file", "read"), "read_fileread_file", ("read_file",)),
    "doubled, with a separator": (("read_file", "read"), "read_file.read_file", ("read_file",)),
    "three times": (("read_file", "read"), "read_fileread_fileread_file", ("read_file",)),
}


@pytest.mark.parametrize(("names", "sent", "meant"), PREFIXED.values(), ids=PREFIXED)
def test_a_tool_under_another_prefix_or_twice_is_suggested(
    names: tuple[str, ...], sent: str, meant: tuple[str, ...]
) -> None:
    """The same last segment behind another server's prefix, and a name that a stream doubled, are suggested alone."""
    assert suggested(offer(*map(a_tool, names)), sent, {}) == meant


NOISE = [
    "functions.read_file:0",
    "default_api.read_file",
    "default_api:read_file",
    "commentary to=functions.read_file",
    "to=functions.read_file<|channel|>commentary json",
    "<tool_call>read_file",
    "read_file</tool_call>",
    "<function=read_file>",
    "<function=read_file",
    "function<\uff5ctool\u2581sep\uff5c>read_file",
    "read_file<\uff5ctool\u2581call\u2581end\uff5c>",
    "[TOOL_CALLS]read_file",
    "read_file[ARGS]",
    "read_file</s>",
    "<|tool_call_begin|>functions.read_file:12<|tool_call_argument_begin|>",
]


@pytest.mark.parametrize("sent", NOISE)
def test_the_noise_of_a_family_is_cut_off(sent: str) -> None:
    """What the template of a model leaves around a name is no part of it; a tool of just that name comes first."""
    found = Resolve(offer(a_tool("read_file")))(Call(sent))
    exact = Resolve(offer(a_tool("read_file"), a_tool(sent)))(Call(sent))
    assert isinstance(found, ResolvedCall)
    assert isinstance(exact, ResolvedCall)
    assert (found.tool.name, exact.tool.name) == ("read_file", sent)


@pytest.mark.parametrize(
    "mark",
    [
        "<|call|>",
        "<|im_end|>",
        "</s>",
        "</tool_call>",
        "</invoke>",
        "<\uff5ctool\u2581call\u2581end\uff5c>",
        "[/TOOL_CALLS]",
        "<|a|>\n" * 5,
    ],
)
async def test_marks_behind_the_arguments_are_cut_off(mark: str) -> None:
    """They are told as a repair; what stands before them must be the whole object."""
    run = standard(offer(WEATHER))
    report = await run.report(Call("weather_report", f'{{"city": "Oslo"}}{mark}'))
    assert report.outcome == Success({"city": "Oslo"})
    assert [repair.rule for repair in report.repairs] == ["json_text"]
    for text in ('{"city": "Oslo%s', '{"city": "Oslo"}} %s', '%s{"city": "Oslo"}', '{"city": "Oslo"}%s x'):
        assert is_failure(await run.call("weather_report", text % mark))


def parallel(*names: str) -> dict[str, Any]:
    """The arguments of a call of `multi_tool_use.parallel`."""
    return {"tool_uses": [{"recipient_name": name, "parameters": {"city": name[-1]}} for name in names]}


def test_the_tools_in_a_wrapper_are_suggested() -> None:
    """A call that holds calls runs none of them, and each of their tools is named."""
    tools = offer(WEATHER, schema_tool("hotels", "city"), a_tool("parallel"))
    held = parallel("functions.hotels", "functions.weather_report", "hotels", "zzz")
    each: tuple[object, ...] = (held, json.dumps(held))
    for arguments in each:
        assert suggested(tools, "multi_tool_use.parallel", arguments) == ("hotels", "weather_report")
    for odd in ({}, {"tool_uses": 5}, {"tool_uses": [5]}, "[", None):
        assert suggested(tools, "multi_tool_use.parallel", odd) == ()


async def run_all(run: Pipeline, reply: Any, adapter: Any) -> list[Any]:
    """The ids and outcomes of the calls in a reply."""
    return [(call.id, await run(call)) for call in adapter.calls(reply, run)]


async def test_an_adapter_takes_the_calls_out_of_a_wrapper() -> None:
    """They run as calls of their own; the message that goes back has them, each with an id that its answer has."""
    run = standard(offer(WEATHER))
    held = parallel("functions.weather_report", "weather_report")
    reply = fake.completion(
        ("c1", "multi_tool_use.parallel", json.dumps(held)), ("c2", "weather_report", '{"city": "x"}')
    )
    found = await run_all(run, reply, openai)
    assert found == [("c1", Success({"city": "t"})), ("c1_2", Success({"city": "t"})), ("c2", Success({"city": "x"}))]
    said, calls = openai.send_back(openai.calls(reply, run), run)
    assert [(each["id"], each["function"]["name"]) for each in said["tool_calls"]] == [
        (call.id, "weather_report") for call in calls
    ]
    assert [call.id for call in calls] == ["c1", "c1_2", "c2"]


def test_a_wrapper_that_is_a_tool_or_no_wrapper_stays_one_call() -> None:
    """A tool of that name is called as it is, and arguments that are no calls are left to the pipeline."""
    own = offer(schema_tool("multi_tool_use.parallel", tool_uses={"type": "array"}))
    held = json.dumps(parallel("functions.a"))
    assert [call.arguments for call in openai.calls(fake.completion(("c", "multi_tool_use.parallel", held)), own)] == [
        held
    ]
    for text in ("{", '{"tool_uses": [{"recipient_name": 5}]}'):
        (call,) = openai.calls(fake.completion(("c", "multi_tool_use.parallel", text)))
        assert (call.name, call.arguments, call.id) == ("multi_tool_use.parallel", text, "c")
    assert anthropic.calls(fake.message(text="Hello.")) == []


def test_a_call_without_a_name_is_told_how_to_call() -> None:
    """What it needs is a name, and not the advice to call no tool."""
    run = standard(offer(WEATHER))
    (outcome,) = gather_sync(run, [Call("", {})])
    assert run.render(outcome) == (
        "Error: This call has no name of a tool.\nAvailable tools: weather_report\n"
        "Call one of the available tools: send its name and its arguments.\n"
        "If you need no tool, write a plain answer, without a call."
    )
    (outcome,) = gather_sync(run, [Call("", {"city": "Oslo"})])
    assert "Did you mean: weather_report?" in run.render(outcome)
