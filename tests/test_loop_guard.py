"""LoopGuard: which calls count as repetitions, when it warns and refuses, and what starts the count anew."""

from __future__ import annotations

import dataclasses
import logging
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from support import a_call, a_tool
from toolcall_pipeline import (
    Call,
    Crashed,
    Denied,
    Effect,
    ExecutionFailed,
    Outcome,
    ResourceNotFound,
    SetupError,
    Stack,
    TimedOut,
    Tool,
    ToolRegistry,
    Transient,
    ValidCall,
    approved,
    is_failure,
)
from toolcall_pipeline.engine.errors import FailureDetails
from toolcall_pipeline.messages import render
from toolcall_pipeline.middlewares import Available, Resolve, Validate, standard
from toolcall_pipeline.middlewares.loop_guard import LoopGuard
from toolcall_pipeline.testing import FakeClock, script

PROBE, OTHER = a_tool(), a_tool("other")
ADVICE = "The same arguments came to the same result {} times. Try something else."


class Warned:
    """Keeps the counts that `on_warning` is called with."""

    def __init__(self) -> None:
        self.times: list[int] = []

    def __call__(self, call: ValidCall, times: int) -> None:
        self.times.append(times)


async def played(guard: LoopGuard, *calls: tuple[ValidCall, Any]) -> list[Any]:
    """Make each call with the outcome of its inside. The outcomes that come back; ``"refused"`` for a call not run."""
    told: list[Any] = []
    for call, outcome in calls:
        came: Any = outcome if type(outcome) in (Success, Failure) else Success(outcome)
        inside = script(came)
        became = await guard(call, inside)
        told.append(became if inside.calls else "refused")
    return told


def asked(params: dict[str, Any] | None = None, tool: Tool[..., Any] = PROBE, principal: str = "") -> ValidCall:
    return a_call(tool, params, principal=principal)


WRONG: dict[str, dict[str, Any]] = {
    "warns at the first call": {"warn_after": 1},
    "warns after half a call": {"warn_after": 2.5},
    "a bool": {"warn_after": True},
    "refuses before it warns": {"warn_after": 3, "refuse_after": 2},
    "refuses after half a call": {"refuse_after": 5.5},
    "forgets at once": {"forget_after": 0},
    "forgets after nan": {"forget_after": float("nan")},
    "no size": {"size": 0},
    "no bytes": {"max_bytes": 0},
    "exempt as text": {"exempt": "probe"},
    "exempt as tools": {"exempt": [PROBE]},
    "an async warning": {"on_warning": script()},
    "a warning that is none": {"on_warning": 1},
}


@pytest.mark.parametrize("options", [pytest.param(options, id=name) for name, options in WRONG.items()])
def test_what_makes_no_sense_is_refused_at_once(options: dict[str, Any]) -> None:
    """A wrong option is a set-up error that names the option and what is allowed."""
    with pytest.raises(SetupError, match=r"LoopGuard: `\w+` must be"):
        LoopGuard(**options)


async def test_outside_of_validate_it_counts_what_validate_refuses() -> None:
    """Calls whose arguments were written alike are one call, valid or not; after them others run as before."""
    tools = ToolRegistry()

    @tools.tool
    def execute(query: str, limit: int = 1) -> str:
        return query

    run = standard(tools).before("validate", LoopGuard(2, 3))
    wrong: list[object] = [{"limit": 1, "query": 2}, '{"query": 2, "limit": 1}', {"query": 2, "limit": 1}]
    written: list[list[object]] = [wrong, [{}] * 3, ["no JSON"] * 3, [{"query": "a"}] * 3]
    for same in written:
        told = [tell_kind(await run(Call("execute", cast("Any", each), conversation="c"))) for each in [*same, same[0]]]
        assert told[:3] == [told[0]] * 3
        assert told[0] != "permission" == told[3]


def tell_kind(outcome: Outcome) -> str:
    return "" if type(outcome) is Success else outcome.failure().kind


@given(st.integers(2, 5), st.integers(0, 3), st.integers(0, 3))
async def test_it_warns_and_then_refuses(warn_after: int, more: int, calls_more: int) -> None:
    """It warns from call `warn_after` on, lets `refuse_after` calls run, and refuses the rest."""
    refuse_after, warned = warn_after + more, Warned()
    guard = LoopGuard(warn_after, refuse_after, on_warning=warned)
    told = await played(guard, *[(asked({"a": 1}), "same")] * (refuse_after + calls_more))
    assert told == [Success("same")] * refuse_after + ["refused"] * calls_more
    assert warned.times == list(range(warn_after, refuse_after + 1))


async def test_it_may_only_warn() -> None:
    """With `refuse_after=None` it goes on warning."""
    warned = Warned()
    told = await played(LoopGuard(2, None, on_warning=warned), *[(asked(), 1)] * 20)
    assert told == [Success(1)] * 20
    assert warned.times == list(range(2, 21))


async def test_its_defaults() -> None:
    """By default it warns from the third call on and refuses the sixth."""
    warned = Warned()
    assert (await played(LoopGuard(on_warning=warned), *[(asked(), 1)] * 6))[4:] == [Success(1), "refused"]
    assert warned.times == [3, 4, 5]


@dataclasses.dataclass
class Row:
    n: int


@attrs.define
class Page:
    rows: list[Row]


class Odd:
    """A type of a user, with no text of its own."""


class Array:
    """As an array of numpy: comparing it raises."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    def __hash__(self) -> int:
        raise TypeError("unhashable")


SAME: list[Callable[[], Any]] = [
    lambda: None,
    lambda: 3,
    lambda: "".join("text"),
    lambda: "".join("text") * 10_000,
    lambda: {"rows": [1, {"a": None}], "total": 1.5},
    lambda: [Row(1), Row(2)],
    lambda: Page([Row(1)]),
    lambda: b"bytes",
    lambda: Failure(ExecutionFailed("no")),
    lambda: Failure(Crashed(ValueError("its own text is told to nobody"))),
    lambda: Failure(TimedOut(1.0)),
]


@pytest.mark.parametrize("make", [pytest.param(make, id=f"{make()!r:.40}") for make in SAME])
async def test_results_are_compared_by_what_they_are(make: Callable[[], Any]) -> None:
    """Results of equal value repeat each other, whether or not they are the same object."""
    warned = Warned()
    await played(LoopGuard(on_warning=warned), *[(asked(), make()) for _ in range(3)])
    assert warned.times == [3]


async def test_a_value_that_shares_its_parts_is_the_same() -> None:
    """Whether parts of a value are the same object makes no difference: a model cannot read it."""
    warned, text = Warned(), "".join("text")
    built: list[Any] = [[text, text], [text, "".join("text")], ["text", "text"]]
    await played(LoopGuard(on_warning=warned), *[(asked({"value": each}), each) for each in built])
    assert warned.times == [3]


def sent(text: str, tool: Tool[..., Any]) -> ValidCall:
    return asked({"text": text}, tool)


@pytest.mark.parametrize(("size", "repetitions"), [(3000, 4), (6000, 2), (20_000, 2)])
async def test_the_oldest_arguments_are_forgotten(size: int, repetitions: int) -> None:
    """Arguments beyond `max_bytes` are forgotten, the oldest first, or those that are too large alone."""
    warned = Warned()
    guard = LoopGuard(2, max_bytes=10_000, on_warning=warned)
    calls = [(sent("a" * (10 if n % 2 else size), a_tool(f"tool_{n}")), 1) for n in range(4)]
    await played(guard, *calls, *calls)
    assert warned.times == [2] * repetitions  # two calls are small


async def test_one_large_call_in_a_row_is_counted() -> None:
    """Arguments that are too large to be kept are still compared with those of the very next call."""
    warned = Warned()
    guard = LoopGuard(2, max_bytes=1000, on_warning=warned)
    await played(guard, *[(sent("a" * 100_000, PROBE), 1)] * 3)
    assert warned.times == [2, 3]


@pytest.mark.parametrize("apart", ["principals", "tools"])
async def test_memory_is_bounded(apart: str) -> None:
    """After 40 calls of 5 MB no more than 16 MiB and the last call stay."""
    guard: Any = LoopGuard()
    tracemalloc.start()
    try:
        for n in range(40):
            tool = a_tool(f"tool_{n}") if apart == "tools" else PROBE
            await played(
                guard, (asked({"text": str(n) * (5_000_000 // len(str(n)))}, tool, f"{n}" * (tool is PROBE)), 1)
            )
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 15_000_000 < kept < 22 * 2**20


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 2000)), max_size=60))
async def test_the_bytes_are_those_that_are_kept(calls: list[tuple[int, int, int]]) -> None:
    """However principals come and go, the sum is right, and nothing of forgotten principals counts."""
    guard: Any = LoopGuard(size=2, max_bytes=5000)
    tools = [a_tool(str(n)) for n in range(4)]
    for principal, tool, size in calls:
        await played(guard, (asked({"text": "a" * size}, tools[tool], str(principal)), 1))
        kept = guard._kept
        known = [*kept.recent.values(), *kept._older.values()]
        lasts = {last for conversation in known for last in conversation.calls.values()}
        assert kept._bytes == sum(kept._sizes.values()) <= 5000
        assert len(set(kept._sizes) - lasts) <= 1


DIFFERENT: list[tuple[Any, Any]] = [
    (1, 2),
    (-1, -2),  # whose hashes are equal
    (None, 0.5),
    ("a", "b"),
    ("a" * 10_000, "a" * 9_999 + "b"),
    ([1], [2]),
    ({"a": [1]}, {"a": [True]}),
    ([Row(1)], [Row(2)]),
    ("no", Failure(ExecutionFailed("no"))),
    (Failure(ExecutionFailed("no")), Failure(ExecutionFailed("never"))),
    (Failure(Transient()), Failure(TimedOut(1.0))),
]


@pytest.mark.parametrize(
    ("one", "other"), [pytest.param(one, other, id=f"{one!r:.30} {other!r:.30}") for one, other in DIFFERENT]
)
async def test_a_new_result_starts_anew(one: Any, other: Any) -> None:
    """A call with another result starts a new row, and the next call counts from there."""
    warned = Warned()
    results = [one, one, other, other, one, one]
    told = await played(LoopGuard(3, 3, on_warning=warned), *[(asked(), result) for result in results])
    assert warned.times == []
    assert "refused" not in told
    assert (await played(LoopGuard(3, 3), *[(asked(), one)] * 4))[3] == "refused"


async def test_a_value_that_is_changed_is_new() -> None:
    """A tool that returns the same list with more in it returns something new."""
    rows: list[int] = []
    warned = Warned()
    guard = LoopGuard(2, on_warning=warned)
    for n in range(5):
        rows.append(n)
        await played(guard, (asked(), rows))
    assert warned.times == []
    await played(guard, (asked(), rows))
    assert warned.times == [2]


@pytest.mark.parametrize("between", [{"a": 2}, {}, {"a": 1, "b": None}], ids=str)
async def test_new_arguments_start_anew(between: dict[str, Any]) -> None:
    """After a call with other arguments, even if it has the same result, a refused call may run again."""
    guard = LoopGuard(2, 2)
    told = await played(guard, *[(asked({"a": 1}), 1)] * 3, (asked(between), 1), *[(asked({"a": 1}), 1)] * 3)
    assert told == [Success(1), Success(1), "refused", Success(1), Success(1), Success(1), "refused"]


SAME_PARAMS: list[Callable[[], Any]] = [
    lambda: 1,
    lambda: ["a", {"b": None}],
    lambda: Row(1),
    lambda: {1, 2},
    lambda: "long" * 10_000,
]


@pytest.mark.parametrize("make", [pytest.param(make, id=f"{make()!r:.30}") for make in SAME_PARAMS])
async def test_arguments_are_compared_by_value(make: Callable[[], Any]) -> None:
    """Arguments of equal value repeat each other, also in another order of names."""
    warned = Warned()
    calls = [asked({"value": make(), "n": 1}), asked({"n": 1, "value": make()}), asked({"value": make(), "n": 1})]
    await played(LoopGuard(2, on_warning=warned), *[(call, 1) for call in calls])
    assert warned.times[:1] == [2]


async def test_arguments_that_a_caller_changes_are_new() -> None:
    """A list that was changed since the last call is another argument; an unchanged one is the same."""
    rows: list[int] = []
    warned = Warned()
    guard = LoopGuard(on_warning=warned)
    for n in range(5):
        rows.append(n)
        await played(guard, (asked({"rows": rows}), "done"))
    assert warned.times == []
    await played(guard, *[(asked({"rows": rows}), "done")] * 2)
    assert warned.times == [3]


@pytest.mark.parametrize("value", [Array(), Odd(), threading.Lock()], ids=["array", "odd", "lock"])
async def test_what_cannot_be_compared_does_no_harm(value: object) -> None:
    """Arguments and results of any type pass, also if they cannot be compared."""
    guard = LoopGuard(2, 2)
    other = type(value)() if not isinstance(value, type(threading.Lock())) else threading.Lock()
    told = await played(guard, (asked({"value": value}), value), (asked({"value": other}), other))
    assert [outcome.unwrap() for outcome in told] == [value, other] if not isinstance(value, Array) else len(told) == 2


async def test_calls_of_other_tools_do_not_start_anew() -> None:
    """Calls of two tools in turn are a row each."""
    warned = Warned()
    guard = LoopGuard(3, 3, on_warning=warned)
    told = await played(guard, *[(asked(), 1), (asked(tool=OTHER), 2)] * 4)
    assert told == [Success(1), Success(2)] * 3 + ["refused"] * 2
    assert warned.times == [3, 3]


@pytest.mark.parametrize("effect", ["read", "idempotent", "mutating"])
@pytest.mark.parametrize("outcome", [Success("done"), Failure(ExecutionFailed("no"))], ids=["success", "failure"])
async def test_a_change_excuses_repetitions(effect: Effect, outcome: Outcome) -> None:
    """Running the tests again after each edit is no loop; after an edit that failed or only read it is."""
    edit = a_tool("edit", effect)
    guard = LoopGuard(3, 3)
    calls = [call for n in range(6) for call in ((asked(), "2 failed"), (asked({"line": n}, edit), outcome))]
    refused = (await played(guard, *calls)).count("refused")
    assert refused == (0 if effect != "read" and outcome == Success("done") else 3)


async def test_a_change_with_a_new_result_excuses_repetitions() -> None:
    """A tool that may change something and has a new result with the same arguments excuses the others, too."""
    step = a_tool("step", "mutating")
    calls = [call for n in range(6) for call in ((asked(), "2 failed"), (asked(tool=step), n))]
    assert "refused" not in await played(LoopGuard(3, 3), *calls)


async def test_changes_that_are_repeated_are_a_loop_too() -> None:
    """Two calls in turn that may change something, with the same results each time, do not excuse each other."""
    set_a, set_b = a_tool("set_a", "mutating"), a_tool("set_b", "mutating")
    told = await played(LoopGuard(3, 3), *[(asked(tool=set_a), 1), (asked(tool=set_b), 1)] * 5)
    assert told.count("refused") > 0
    assert told[-2:] == ["refused"] * 2


async def test_each_principal_has_its_own_count() -> None:
    """Repetitions of one principal do not count for another, and its changes excuse only itself."""
    guard = LoopGuard(2, 2)
    told = await played(
        guard, *[(asked(principal=who), 1) for who in ("ann", "bob", "ann", "bob", "ann", "eve", "bob")]
    )
    assert told == [Success(1)] * 4 + ["refused", Success(1), "refused"]
    await played(guard, (asked(tool=a_tool("edit", "mutating"), principal="bob"), 1))
    assert await played(guard, *[(asked(principal=who), 1) for who in ("ann", "bob")]) == ["refused", Success(1)]


async def test_after_a_time_it_forgets() -> None:
    """A refused call may run again `forget_after` seconds after it last ran; refusals in between do not delay that."""
    clock = FakeClock(0.0)
    guard = LoopGuard(2, 2, forget_after=60, clock=clock)
    assert (await played(guard, *[(asked(), 1)] * 3))[2] == "refused"
    clock.now = 59.9
    assert await played(guard, (asked(), 1)) == ["refused"]
    clock.now = 60
    assert await played(guard, *[(asked(), 1)] * 3) == [Success(1), Success(1), "refused"]


async def test_rare_calls_are_no_loop() -> None:
    """Equal calls that are further apart than `forget_after` never add up."""
    clock, warned = FakeClock(0.0), Warned()
    guard = LoopGuard(forget_after=60, on_warning=warned, clock=clock)
    for _ in range(10):
        await played(guard, (asked(), 1))
        clock.now += 61
    assert warned.times == []


@pytest.mark.parametrize(
    ("tool", "exempt"), [(a_tool(polling=True), ()), (PROBE, {"probe"})], ids=["by declaration", "by name"]
)
async def test_polling_is_exempt(tool: Tool[..., Any], exempt: Any) -> None:
    """A tool that is polled is neither warned of nor refused."""
    warned = Warned()
    told = await played(LoopGuard(2, 2, exempt=exempt, on_warning=warned), *[(asked(tool=tool), 1)] * 10)
    assert told == [Success(1)] * 10
    assert warned.times == []


@pytest.mark.parametrize("error", [ExecutionFailed, ResourceNotFound])
async def test_a_repeated_failure_says_so_to_the_model(error: Any) -> None:
    """A repeated failure without a suggestion gets one; the rest of it stays."""
    cause = ValueError()
    outcome: Outcome = Failure(error("no", FailureDetails("path"), cause=cause))
    guard = LoopGuard(2, 3)
    first, second, third = await played(guard, *[(asked(), outcome)] * 3)
    assert first is outcome
    assert [each.failure().details for each in (second, third)] == [
        FailureDetails("path", approved(ADVICE.format(times))) for times in (2, 3)
    ]
    assert second.failure().cause is cause
    assert render(second.failure()).endswith(ADVICE.format(2))
    assert await played(guard, (asked(), outcome)) == ["refused"]


UNTOUCHED: list[Outcome] = [
    Success({"a": 1}),
    Failure(ExecutionFailed("no", FailureDetails(suggestion="Look at the log."))),
    Failure(Denied("backend")),
    Failure(Transient()),
    Failure(Crashed()),
]


@pytest.mark.parametrize("outcome", UNTOUCHED, ids=repr)
async def test_other_outcomes_stay_as_they_are(outcome: Outcome) -> None:
    """A success, a failure of another kind, and one with a suggestion of its author come back as the same object."""
    assert all(each is outcome for each in await played(LoopGuard(2, None), *[(asked(), outcome)] * 4))


SENT: list[tuple[Any, str]] = [
    (None, "probe({})"),
    ("", "probe({})"),
    ({}, "probe({})"),
    ({"path": "a.txt"}, 'probe({"path": "a.txt"})'),
    ('{"path":\n "ä.txt"}', 'probe({"path":  "ä.txt"})'),
    ({"text": "x" * 1000}, 'probe({"text": "' + "x" * 190 + "…)"),
]


@pytest.mark.parametrize(("sent", "shown"), [pytest.param(*row, id=f"{row[0]!r:.30}") for row in SENT])
async def test_a_refusal_tells_what_was_tried(sent: Any, shown: str) -> None:
    """It says how often, which call (as the model wrote it, shortened, on one line), and what to do."""
    tools = ToolRegistry()
    tools.register(PROBE)
    run = standard(tools).before("retry", LoopGuard(2, 2))
    outcomes = [await run(Call("probe", sent)) for _ in range(3)]
    assert outcomes[:2] == [Success("done")] * 2
    error = outcomes[2].failure()
    text = f"The same call came to the same result 2 times, so it was not run again: {shown}. "
    assert error == Denied("loop_guard", approved(text + "Change the arguments, or try something else."))
    assert render(outcomes[2]) == f"Error: {text}Change the arguments, or try something else."


async def test_the_log_holds_no_arguments(caplog: pytest.LogCaptureFixture) -> None:
    """A warning is a log record with the tool, the call and the count; arguments may be secret and are not in it."""
    with caplog.at_level(logging.WARNING, "toolcall_pipeline"):
        await played(LoopGuard(), *[(a_call(params={"key": "s3cret"}, id="call_7"), 1)] * 3)
    assert [record.getMessage() for record in caplog.records] == [
        "Tool 'probe': the same arguments came to the same result 3 times (call 'call_7')"
    ]
    facts = vars(caplog.records[0])
    assert (facts["tool"], facts["call_id"], facts["times"]) == ("probe", "call_7", 3)
    assert "s3cret" not in str(facts)


async def test_a_warning_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """An exception of on_warning is logged and does not change the outcome."""

    def fail(call: ValidCall, times: int) -> None:
        raise RuntimeError("a bug of the hook")

    assert await played(LoopGuard(2, on_warning=fail), *[(asked(), 1)] * 2) == [Success(1)] * 2
    assert "on_warning failed" in caplog.text


async def test_the_report_tells_of_it() -> None:
    """A warning and a refusal have a note in the report; a refusal has no attempt."""
    tools = ToolRegistry()
    tools.register(PROBE)
    run = standard(tools).before("retry", LoopGuard(2, 2))
    reports = [await run.report(Call("probe")) for _ in range(3)]
    notes = [[row.note for row in report.stages if row.name == "loop_guard" and row.note] for report in reports]
    told = "the same arguments came to the same result 2 times"
    assert notes == [[], [told], [f"not run: {told}"]]
    assert [len(report.attempts) for report in reports] == [1, 1, 0]
    verdicts = [row.verdict for row in reports[2].stages if row.name == "loop_guard"]
    assert "permission" in verdicts


async def test_the_last_principals_are_remembered() -> None:
    """It remembers at least the last `size` principals, and at most twice as many."""
    guard: Any = LoopGuard(2, 2, size=3)
    names = [str(n) for n in range(20)]
    await played(guard, *[(asked(principal=name), 1) for name in names for _ in range(2)])
    assert await played(guard, *[(asked(principal=name), 1) for name in names[-3:]]) == ["refused"] * 3
    assert (await played(guard, *[(asked(principal=name), 1) for name in names])).count("refused") <= 6
    assert len(guard._kept.recent) + len(guard._kept._older) <= 6


async def test_tools_without_end_are_forgotten() -> None:
    """A registry that makes tools all the time does not fill the memory."""
    guard = LoopGuard(2, 2)
    await played(guard, *[(asked(tool=a_tool(f"tool_{n}")), 1) for n in range(2500)])
    assert len(remembered(guard)) <= 1000


def remembered(guard: Any) -> list[Any]:
    """What it keeps of the tools of the principal ""."""
    return list(guard._kept.recent[""].calls.values())


async def test_no_failure_is_held() -> None:
    """It keeps a digest of a failure, not the failure: the traceback of a cause would hold whole frames."""
    guard = LoopGuard()
    outcome: Outcome = Failure(Crashed(ValueError()))
    await played(guard, *[(asked(), outcome)] * 2)
    assert [type(last.digest) for last in remembered(guard)] == [int]


async def test_it_needs_none_of_the_other_stages() -> None:
    """It works in a stack without Retry, Classify and the other stages."""
    tools = ToolRegistry()
    tools.register(PROBE)
    checked = Stack().check(Resolve(tools)).check(Available(tools)).check(Validate())
    run = checked.wrap(LoopGuard(2, 2)).end(script(Success(1), Success(1)))
    assert [is_failure(await run.call("probe")) for _ in range(3)] == [False, False, True]
