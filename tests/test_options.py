"""Every option of every stage: what is of another type or out of range is told at once, with stage, option and rule."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import toolcall_pipeline.middlewares
from support import a_tool
from toolcall_pipeline import Pipeline, RetryBudget, SetupError, Stack, ToolRegistry, gather
from toolcall_pipeline.builtin import install
from toolcall_pipeline.executors import Loop, Process, Thread
from toolcall_pipeline.middlewares import (
    Approve,
    Audit,
    Available,
    Cache,
    CheckResult,
    CircuitBreaker,
    Classify,
    Concurrency,
    DryRun,
    Execute,
    Ledger,
    LoopGuard,
    Policy,
    Quota,
    RateLimit,
    Redact,
    Resolve,
    Retry,
    Reword,
    Shape,
    Switchboard,
    Timeout,
    Trace,
    Validate,
    standard,
)
from toolcall_pipeline.policies import RuleSet
from toolcall_pipeline.stores import Memory

TOOLS = ToolRegistry()


async def awaits(_: object) -> None:
    """A function whose result has to be awaited, where nobody awaits it."""


class Odd:
    """A value whose repr has a bug."""

    def __repr__(self) -> str:
        raise ValueError("no repr")


NAN, INF = math.nan, math.inf
NO_NUMBER: list[Any] = ["a", "1", True, NAN, INF, -INF, -1, 10**400, [1], {}, timedelta(seconds=1), Odd()]
NO_COUNT: list[Any] = ["a", "1", True, NAN, INF, -INF, -1, 2.5, 1.0, [1], {}, Odd()]
NO_FUNCTION = [3, "clock", [print], Odd()]
NO_SYNC_FUNCTION = [*NO_FUNCTION, awaits]
NO_NAMES = [3, "tool", b"tool", [1], [None], [["a"]], Odd()]
NO_MAPPING = [3, "tool", ["tool"], {1: 1}, {None: 1}, Odd()]
NO_FLAG = [3, 1, "yes", [True], Odd()]
NO_EXECUTOR = [3, "thread", Thread, print, Odd()]
NO_POLICY: list[Any] = [3, None, [], "a", {"atempts": 1}, {1: 1}]
NO_STAGES: list[Any] = [5, None, "trace", b"x", [], [1], (1,), (Retry(),), {}, Retry, print, Odd()]
NO_KINDS = [3, "timeout", {"internal"}, [1], [["timeout"]]]


def _sharing() -> dict[str, Any]:
    return {
        "store": [3, "a.db", Memory, print, Odd()],
        "when_away": [3, "open", None, ["local"], Odd()],
        "share_as": [3, None, b"a", Odd()],
    }


def _retries() -> dict[str, Any]:
    return {
        "attempts": [*NO_COUNT, 0, None],
        "first_delay": [*NO_NUMBER, None],
        "max_delay": [*NO_NUMBER, None],
        "kinds": [*NO_KINDS, None],
    }


# By the callable: what it must be given, and the values that each option refuses. "tools['x']": of one tool.
TABLE: dict[Callable[..., Any], tuple[dict[str, Any], dict[str, list[Any]]]] = {
    Available: ({}, {"registry": [3, None, [a_tool()], {"a": 1}]}),
    Resolve: (
        {"registry": TOOLS},
        {
            "registry": [3, None, [a_tool()]],
            "canonical_names": [*NO_FLAG, None],
            "listed": [*NO_COUNT, None],
            "renames": [3, None, "x", [("a", "x")], {3: "x"}],
            "renames['x']": [{"x": 3}, {"x": None}],
        },
    ),
    Validate: ({}, {"repair": [3, None, "json_text", ("no rule",), [1], [["json_text"]]], "limits": [3, None, {}]}),
    Retry: (
        {},
        {
            **_retries(),
            "tools": [*NO_MAPPING, None],
            "tools['x']": NO_POLICY,
            **{f"tools['x']['{name}']": values for name, values in _retries().items()},
            "budget": [3, True, {}, RetryBudget],
            "jitter": [*NO_SYNC_FUNCTION, None],
            "sleep": [*NO_FUNCTION, None],
        },
    ),
    RetryBudget: (
        {},
        {"burst": [*NO_NUMBER, None], "per_second": [*NO_NUMBER, None], "clock": [*NO_SYNC_FUNCTION, None]},
    ),
    Timeout: (
        {"seconds": 30},
        {"seconds": [*NO_NUMBER, 0], "tools": [*NO_MAPPING, None], "tools['x']": [*NO_NUMBER, 0]},
    ),
    Classify: (
        {},
        {
            "errors": [3, "timeout", {1: "timeout"}, {"httpx": "timeout"}, {OSError: "no kind"}, {int: "timeout"}],
            "clock": [*NO_SYNC_FUNCTION, None],
            "foreign_text": ["show", None, 3, True],
        },
    ),
    CheckResult: ({}, {"returns": [*NO_FLAG, None]}),
    Approve: (
        {"store": Memory(), "needs": bool},
        {
            "store": [3, None, Memory],
            "needs": [3, "a"],
            "effects": [3, "read", ["write"]],
            "tools": [3, "a", [3]],
            "version": [3, None],
            "expires": [*NO_NUMBER, 0],
            "hold": [*NO_NUMBER, -1],
            "notify": [3, "a"],
            "four_eyes": [3, "a", None],
        },
    ),
    Audit: (
        {"store": Memory()},
        {
            "store": [3, None, Memory],
            "secret": [3, "a", bytes(65)],
            "content": [3, None],
            "when_away": [3, "a", None],
        },
    ),
    Switchboard: (
        {"store": Memory()},
        {"store": [3, None, Memory], "on_away": [3, None, "open"], "secret": [3, "a", bytes(65)]},
    ),
    DryRun: ({}, {"rules": [3, "a"]}),
    Policy: ({"rules": RuleSet()}, {"rules": [3, None, b"a", ["a"]], "reload": [1, "a", None]}),
    Redact: (
        {"fields": ["iban"]},
        {"fields": [3, None, [3], [""]], "patterns": [3, None, [3]], "detect": [3, "a", awaits], "arguments": NO_FLAG},
    ),
    Reword: ({}, {"function": [3, None, "a"]}),
    Shape: (
        {},
        {
            "max_characters": [*NO_COUNT, 199],
            "max_tokens": [*NO_COUNT, 49],
            "tools": NO_MAPPING,
            "tools['x']": [*NO_COUNT, 199],
            "hints": NO_MAPPING,
            "hints['x']": [3, None, ["a"]],
            "empty": [3, ["nothing"]],
            "neutralise": [*NO_FLAG, None],
            "keep": [3, Memory],
            "keep_seconds": [*NO_NUMBER, None, 0],
            "keep_bytes": [*NO_COUNT, 0],
        },
    ),
    Execute: (
        {},
        {
            "executor": NO_EXECUTOR,
            "executors": [*NO_MAPPING, None],
            "executors['x']": [*NO_EXECUTOR, None],
            "detect": NO_SYNC_FUNCTION,
            "foreign_text": ["show", None, 3, True],
        },
    ),
    Trace: (
        {},
        {
            "defer": [*NO_FLAG, None],
            "stages": [*NO_FLAG, None],
            "stage_durations": [*NO_FLAG, None],
            "openinference": [*NO_FLAG, None],
            "content": NO_FLAG,
            "redact": NO_SYNC_FUNCTION,
            "attributes": NO_SYNC_FUNCTION,
            "principal": [*NO_FLAG, None],
            "sinks": [3, None, print, "sink"],
            "sinks[0]": [3, "sink", awaits, None],
            "tracer_provider": [3, "global"],
            "meter_provider": [3, "global"],
        },
    ),
    RateLimit: (
        {"rate": 1},
        {
            "rate": [*NO_NUMBER, 0, None],
            "per": [*NO_NUMBER, 0, None],
            "burst": [*NO_COUNT, 0],
            "key": NO_SYNC_FUNCTION,
            "clock": [*NO_SYNC_FUNCTION, None],
            "sleep": [*NO_FUNCTION, None],
            **_sharing(),
        },
    ),
    Quota: (
        {"calls": 1},
        {
            "calls": [*NO_NUMBER, 0, None],
            "per": [3, "user", None, ["tool"], Odd()],
            "window": [*NO_NUMBER, 0],
            "cost": NO_SYNC_FUNCTION,
            **_sharing(),
        },
    ),
    RateLimit(1).queueing: ({}, {"max_wait": [*NO_NUMBER, 0, None]}),
    Concurrency: (
        {"limit": 2},
        {
            "limit": [*NO_COUNT, 0, None],
            "max_queue": NO_COUNT,
            "max_wait": [*NO_NUMBER, 0],
            "weight": [*NO_MAPPING, awaits],
            "weight['x']": [*NO_COUNT, 0, 3, None],
            "groups": NO_MAPPING,
            "groups['x']": [3, None, ["a"]],
            "key": NO_SYNC_FUNCTION,
            "lease": [*NO_NUMBER, 0, None],
            **_sharing(),
        },
    ),
    CircuitBreaker: (
        {},
        {
            "registry": [3, "tools", [a_tool()], Odd(), awaits],
            "failures": [*NO_COUNT, 0],
            "failure_ratio": [*NO_NUMBER, 0, 1.1],
            "window": [*NO_NUMBER, 0, None],
            "min_calls": [*NO_COUNT, 0, None],
            "open_for": [*NO_NUMBER, 0, None],
            "max_open_for": [*NO_NUMBER, 0, 29],
            "probes": [*NO_COUNT, 0, None],
            "key": NO_SYNC_FUNCTION,
            "clock": [*NO_SYNC_FUNCTION, None],
            **_sharing(),
        },
    ),
    Cache: (
        {"ttl": 60},
        {
            "ttl": ["60", True, NAN, -INF, 0, -1, None, [60], timedelta(seconds=1), Odd(), {1: 60}],
            "ttl['x']": ["60", True, NAN, 0, -1, None],
            "size": [*NO_COUNT, 0, None],
            "max_bytes": [*NO_COUNT, 0],
            "tools": [*NO_NAMES, ()],
            "on_write": ["forget", 3, None, ["keep"]],
            "key": NO_SYNC_FUNCTION,
            "copy": [*NO_SYNC_FUNCTION, None],
            "clock": [*NO_SYNC_FUNCTION, None],
        },
    ),
    LoopGuard: (
        {},
        {
            "warn_after": [*NO_COUNT, 0, 1, None],
            "refuse_after": [*NO_COUNT, 0, 2],
            "forget_after": ["a", True, NAN, -INF, 0, -1, None, timedelta(seconds=1)],
            "exempt": [*NO_NAMES, None],
            "on_warning": NO_SYNC_FUNCTION,
            "key": NO_SYNC_FUNCTION,
            "size": [*NO_COUNT, 0, None],
            "max_bytes": [*NO_COUNT, 0, None],
            "clock": [*NO_SYNC_FUNCTION, None],
        },
    ),
    Ledger: (
        {"store": Memory()},
        {
            "store": [3, None, "calls.db", Memory],
            "secret": [3, None, "text", b"x" * 65],
            "keep": [*NO_NUMBER, 0, -1, None],
            "max_wait": [*NO_NUMBER, -1, None],
            "lease": [*NO_NUMBER, 0, -1, None],
            "repeats": ["no", None, 3],
        },
    ),
    standard: (
        {"tools": TOOLS},
        {
            "tools": [3, None, [a_tool()], {"a": 1}, lambda: 1],
            "timeout": [*NO_NUMBER, 0],
            "attempts": [*NO_COUNT, 0, None],
            "canonical_names": [*NO_FLAG, None],
            "listed": [*NO_COUNT, None],
            "limits": [3, "a", {"bytes": 1}],
            "store": [3, "calls.db", Memory],
            "redact": NO_SYNC_FUNCTION,
            "errors": [3, "timeout", {1: "timeout"}],
            "policy": [3, b"a", ["a"]],
            "journal": [3, b"a", ["a"]],
            "executor": NO_EXECUTOR,
            "executors": NO_MAPPING,
            "executors['x']": NO_EXECUTOR,
            "wording": [3, "llmproc", {"profile": "default"}],
            "detect": NO_SYNC_FUNCTION,
            "foreign_text": ["show", None, 3, True],
            "trace": ["yes", 3, True, [None]],
        },
    ),
    Thread: ({}, {"threads": [*NO_COUNT, 0, None], "max_abandoned": [*NO_COUNT, 0, None]}),
    Process: ({}, {"workers": [*NO_COUNT, 0]}),
    Stack: ({}, {"entries": NO_STAGES}),
    Pipeline: (
        {"stages": standard(TOOLS).entries},
        {"stages": NO_STAGES, "wording": [3, "llmproc"], "promises": [3, None, {}, Odd()]},
    ),
}


def _put(option: str, value: object) -> dict[str, Any]:
    """The keyword argument that holds a value in the place that an option names, such as ``tools['x']['attempts']``."""
    name, *keys = option.replace("]", "").replace("'", "").split("[")
    for key in reversed(keys):
        value = [value] if key.isdigit() else {key: value}
    return {name: value}


OPTIONS = [
    pytest.param(make, option, id=f"{make.__qualname__} {option}")
    for make, (_, options) in TABLE.items()
    for option in options
]


@pytest.mark.parametrize(("make", "option"), OPTIONS)
def test_a_wrong_option_is_told_at_once(make: Callable[..., Any], option: str) -> None:
    """The text names the stage and the option, and says what is allowed and what was given."""
    given, options = TABLE[make]
    owner = {"queueing": "RateLimit", "standard": r"\w+"}.get(make.__name__, make.__name__)
    for value in options[option]:
        with pytest.raises(SetupError) as caught:
            make(**given | _put(option, value))
        text = str(caught.value)
        assert re.match(rf"{owner}: `{re.escape(option)}` must ", text), text
        assert len(text) < 1000, "what was given is not cut"


@pytest.mark.parametrize("make", TABLE, ids=lambda make: make.__qualname__)
def test_the_table_has_every_option(make: Callable[..., Any]) -> None:
    """A new option of a stage gets a row."""
    assert {option.partition("[")[0] for option in TABLE[make][1]} == set(inspect.signature(make).parameters)


def test_the_table_has_every_stage() -> None:
    """So does a new stage."""
    assert set(vars(toolcall_pipeline.middlewares)["__all__"]) - {"QueueingRateLimit"} <= {
        make.__name__ for make in TABLE
    }


NAMED: list[tuple[Callable[[], Any], str]] = [
    (lambda: Timeout(30, tools={"serach": 60}), "timeout: `tools` names 'serach', and there is no such tool; did you"),
    (lambda: Retry(tools={"search_the_web": {"attempts": 1}}), "retry: `tools` names 'search_the_web'"),
    (
        lambda: Concurrency(2, weight={"nope": 2}),
        "concurrency: `weight` names 'nope'.*; register it before the pipeline",
    ),
    (lambda: Concurrency(2, groups={"search": "a", "s": "a"}), "concurrency: `groups` names 's'"),
    (lambda: Cache({"search": 60, "by_ttl": 60}), "cache: `tools` names 'by_ttl'"),
    (lambda: Cache(60, tools=["serach"]), "cache: `tools` names 'serach'"),
    (lambda: LoopGuard(exempt=["serach"]), "loop_guard: `exempt` names 'serach'"),
]


@pytest.mark.parametrize(("make", "text"), NAMED, ids=[text[:28] for _, text in NAMED])
def test_a_tool_that_an_option_names_exists(make: Callable[[], Any], text: str) -> None:
    """A name that no registry of the pipeline has is refused when the pipeline is built; an alias is no name."""
    stage, tools = make(), ToolRegistry()
    late = standard(tools).without("retry").after("validate", stage)  # without a tool nothing is known
    tools.register(a_tool("search", aliases=("s",)))
    with pytest.raises(SetupError, match=text):
        late.without("trace")
    with pytest.raises(SetupError, match=text):
        standard(tools.view([])).without("retry").after("validate", stage)


def test_a_tool_that_is_installed_later_may_be_named() -> None:
    """The tools that are shipped need the pipeline, so no registry has them when it is built."""
    tools = ToolRegistry()
    tools.register(a_tool("search"))
    pipeline = standard(tools).after("retry", Timeout(30, tools={"batch": 300, "search": 5}))
    assert install(tools, pipeline) == ("batch", "invalid")
    assert "timeout" in pipeline.without("trace").stages


def test_the_bounds_themselves_are_allowed() -> None:
    """What the docstrings allow is taken."""
    Cache(INF)
    Cache({"a": INF})
    Cache(60, tools=iter(["a"]))
    Cache(60, copy=dict)
    LoopGuard(forget_after=INF, exempt=(name for name in ("a",)))
    Concurrency(3, max_queue=0, weight=lambda _: 3, groups={"a": "b"})
    CircuitBreaker(lambda _: TOOLS, failures=None, failure_ratio=1, max_open_for=30)
    Execute(Loop(), executors={"thread": Thread(8)})
    Retry(1, 0, max_delay=0, kinds=(), tools={"a": {}}, budget=None)
    Timeout(None, tools={"a": None, "b": 0.1})
    Validate(())


@pytest.mark.parametrize(
    ("option", "values"),
    list({"limit": [*NO_COUNT, 0, None], "timeout": ["a", True, NAN, [1]], "each": ["a", True, NAN, [1]]}.items()),
)
async def test_gather_checks_its_options(option: str, values: list[Any]) -> None:
    """Before any call runs."""
    for value in values:
        with pytest.raises(SetupError, match=f"^gather: `{option}` must be "):
            await gather(standard(TOOLS), [], **{option: value})
