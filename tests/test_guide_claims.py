"""Numbers that a guide gives: the most that is taken, and what is said or done beyond it; and defaults."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from toolcall_pipeline import (
    Call,
    Failure,
    InvalidParams,
    Limits,
    Progress,
    SetupError,
    Success,
    Tool,
    ToolRegistry,
    UnknownTool,
    gather,
    is_failure,
    is_success,
    watch_store,
)
from toolcall_pipeline.executors import Thread
from toolcall_pipeline.executors.remote_progress import SentSteps
from toolcall_pipeline.journal import Journal
from toolcall_pipeline.mcp import remote_server, upstream
from toolcall_pipeline.mcp.server_session import Backoff
from toolcall_pipeline.middlewares import Approve, RateLimit, Retry, Shape, Trace, standard
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.testing import recorded_spans

INTEGERS = {"type": "array", "items": {"type": "integer"}}
Json = dict[str, Any]


async def run(**_: object) -> str:
    return "ran"


def make(properties: Json | None = None, **schema: Any) -> ToolRegistry:
    """A registry with one tool that reads."""
    tools = ToolRegistry()
    parameters = {"type": "object", "properties": properties or {}, **schema}
    tools.register(Tool.from_schema(name="t", parameters=parameters, handler=run, effect="read"))
    return tools


def accepts(value: Json, **schema: Any) -> bool:
    """Whether a tool with this parameter can be made."""
    try:
        make({"a": value}, **schema)
    except SetupError:
        return False
    return True


def refers(characters: int) -> bool:
    name = "a" * (characters - len("#/$defs/"))
    return accepts({"$ref": f"#/$defs/{name}"}, **{"$defs": {name: {}}})


def repairs(tools: ToolRegistry, arguments: Json) -> bool:
    return bool(anyio.run(standard(tools).report, Call("t", arguments)).repairs)


def repairs_inside(levels: int) -> bool:
    """Whether text is read as a number so deep in lists."""
    schema: Json = {"type": "integer"}
    value: object = "5"
    for _ in range(levels):
        schema, value = {"type": "array", "items": schema}, [value]
    return repairs(make({"a": schema}), {"a": value})


def renames(names: int) -> bool:
    tools = make({"user_name": {"type": "string"}}, required=["user_name"])
    return repairs(tools, {"userName": "x", **{f"x{number}": 1 for number in range(names - 1)}})


def tells_places(tools: ToolRegistry, items: list[object]) -> bool:
    """Whether an item of a list is told, and not the whole list alone."""
    refused = standard(tools).call_sync("t", {"a": items}).failure()
    assert isinstance(refused, InvalidParams)
    return any(each.path == "a[0]" for each in refused.problems)


def make_function() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool(name="t", effect="read")
    async def add(a: list[int]) -> int:
        return sum(a)

    del add
    return tools


def answers_again(answers: int) -> bool:
    """Whether a delivery that comes again gets its answer, so many answers after it began."""
    tools, paid = ToolRegistry(), list[int]()

    @tools.tool
    async def pay(cents: int) -> None:
        paid.append(cents)

    del pay
    pipeline = standard(tools)
    for number in (*range(answers), 0):
        anyio.run(pipeline, Call("pay", {"cents": number}, str(number), reply=f"r{number}"))
    return paid.count(0) == 1


BOUNDS: dict[str, tuple[int, Callable[[int], bool]]] = {
    "characters of a pattern": (2_000, lambda n: accepts({"pattern": "a" * n})),
    "characters of a reference": (2_000, refers),
    "patterns for the names of one place": (
        100,
        lambda n: accepts({"patternProperties": {f"a{i}": {} for i in range(n)}}),
    ),
    "subschemas that apply to one place, with its own": (
        1_000,
        lambda n: accepts({"anyOf": [{"minLength": i} for i in range(n - 1)]}),
    ),
    "wrong things that are repaired": (200, lambda n: repairs(make({"a": INTEGERS}), {"a": ["1"] * n})),
    "levels of a repair": (16, repairs_inside),
    "undeclared names beside a repaired one": (50, renames),
    "names and items of a raw schema": (250, lambda n: tells_places(make({"a": INTEGERS}), ["x", *[1] * (n - 2)])),
    "answers of known replies": (100, answers_again),
    "errors of pydantic": (500, lambda n: tells_places(make_function(), ["x"] * n)),
}


@pytest.mark.parametrize("what", BOUNDS)
def test_a_bound_is_the_number_that_a_guide_gives(what: str) -> None:
    """As many are taken, and one more is not."""
    most, takes = BOUNDS[what]
    assert [takes(most), takes(most + 1)] == [True, False]


DEFAULTS: dict[str, tuple[Callable[..., object], dict[str, object]]] = {
    "calls that run at a time": (gather, {"limit": 50}),
    "threads": (Thread, {"threads": 40, "max_abandoned": 40}),
    "a journal": (Journal, {"days": 30, "megabytes": 500}),
    "a person's time": (Approve, {"expires": 86_400.0, "four_eyes": False}),
    "a look at the store": (watch_store, {"every": 30.0}),
    "a result": (Shape, {"max_characters": 20_000}),
    "arguments": (Limits, {"bytes": 1_000_000, "depth": 64, "keys": 5_000, "problems": 50}),
    "attempts": (Retry, {"attempts": 3}),
    "the question of a tool": (Tool, {"verify_timeout": 5.0}),
}


@pytest.mark.parametrize("what", DEFAULTS)
def test_a_default_is_the_number_that_a_guide_gives(what: str) -> None:
    """Nobody has to name it."""
    made, expected = DEFAULTS[what]
    assert {name: inspect.signature(made).parameters[name].default for name in expected} == expected


async def test_as_many_calls_run_at_a_time_as_gather_says() -> None:
    """Fifty of sixty, until one of them ends."""
    tools = ToolRegistry()
    now: list[int] = []
    most = 0

    @tools.tool(effect="read")
    async def wait(n: int) -> int:
        nonlocal most
        now.append(n)
        most = max(most, len(now))
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        now.remove(n)
        return n

    outcomes = await gather(standard(tools), [Call("wait", {"n": n}) for n in range(60)])
    assert ([each.unwrap() for each in outcomes], most) == (list(range(60)), 50)


async def test_a_span_has_twenty_repairs_or_problems_and_a_part_of_a_name() -> None:
    """Of more repairs it says how many; a made-up name has 128 characters, and a description 1,000."""
    tools = ToolRegistry()
    parameters = {"type": "object", "properties": {"a": INTEGERS}}
    tools.register(
        Tool.from_schema(name="t", parameters=parameters, handler=run, effect="read", description="d" * 3_000)
    )
    with recorded_spans() as recorded:
        pipeline = standard(tools, trace=Trace(tracer_provider=recorded.tracer_provider))
        for name, sent in (("t", ["1"] * 50), ("t", ["x"] * 45), ("q" * 500, [])):
            await pipeline.call(name, {"a": sent})
        held = [span.attributes or {} for span in recorded.spans if span.name.startswith("execute_tool")]
    repaired, wrong, unknown = held
    shown, problems = repaired["toolcall.repairs"], wrong["toolcall.problems"]
    assert isinstance(shown, tuple)
    assert (len(shown), shown[-2:]) == (21, ("a[19]: number_text", "and 30 more"))
    assert isinstance(problems, tuple)
    assert (len(problems), len(str(wrong["gen_ai.tool.description"]))) == (20, 1_000)
    assert unknown["toolcall.tool.requested_name"] == "q" * 128


def test_an_outcome_is_always_true() -> None:
    """So a program asks what it is."""
    refused = Failure(UnknownTool("t"))
    assert (bool(Success(None)), bool(refused), is_success(Success(0)), is_failure(refused)) == (True, True, True, True)


@pytest.mark.parametrize(("store", "role"), [(None, "check"), (Memory(), "wrap")])
def test_a_rate_limit_with_a_store_is_a_middleware(store: Memory | None, role: str) -> None:
    """A check cannot wait for a store."""
    entries = standard(make()).after("validate", RateLimit(1, store=store)).entries
    assert [entry.role for entry in entries if entry.name == "rate_limit"] == [role]


def test_the_adapters_import_no_sdk() -> None:
    """Each works on plain data and on the SDK's objects, with no client installed."""
    names = ["openai", "anthropic", "gemini", "bedrock", "ollama", "mistral"]
    script = f"""import sys
for name in {names}: __import__("toolcall_pipeline.adapters." + name)
print({{"openai", "anthropic", "google.genai", "boto3", "botocore", "ollama", "mistralai"}} & set(sys.modules))"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_steps_of_another_process_come_a_hundred_at_once_and_a_hundred_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of more the last one is told with the reply."""
    now, sent = [0.0], list[int]()
    slept = threading.Event()
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: slept.wait())  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr("toolcall_pipeline.executors.remote_progress.time", clock)

    def send(step: tuple[int, float, float | None, str]) -> bool:
        sent.append(step[0])
        return True

    steps = SentSteps(send)
    for count, seconds in ((150, 0.0), (80, 0.5)):
        now[0] += seconds
        for done in range(count):
            steps(Progress(done, None, "", 0))
    assert sent == [*range(1, 101), *range(151, 201)]
    assert [number for number, *_ in steps.close()] == [230]
    slept.set()


@pytest.mark.parametrize(
    ("module", "most", "delays"),
    [
        (upstream, "_MAX_DELAY", [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]),
        (remote_server, "_MOST_DELAY", [0.2, 0.4, 0.8]),
    ],
)
def test_a_server_that_is_gone_is_waited_for_longer_and_longer(
    module: ModuleType, most: str, delays: list[float]
) -> None:
    """The proxy waits for 5 seconds at most, and `add_server` for 30; what held is waited for as at first."""
    first, last = vars(module)["_FIRST_DELAY"], vars(module)[most]
    backoff = Backoff(first, last)
    assert [backoff.next_delay(0) for _ in delays] == delays
    assert [backoff.next_delay(0) for _ in range(9)][-1] == last == {upstream: 5, remote_server: 30}[module]
    assert backoff.next_delay(60) == first
