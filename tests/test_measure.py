"""testing.measure: what stages cost is told apart from noise, no tool runs, and nothing stays changed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import SkipTest
from unittest.mock import AsyncMock
from xml.etree import ElementTree as ET

import anyio
import attrs
import pytest

from toolcall_pipeline import Call, Handler, Outcome, Pipeline, SetupError, StateKey, ToolRegistry, ValidCall
from toolcall_pipeline.middlewares import Cache, LoopGuard, standard
from toolcall_pipeline.testing import Overhead, assert_overhead, measure
from toolcall_pipeline.testing.overhead import (
    Figure,
    StageCost,
    compare_runs,
    draw_bars,
    explain_speed,
    format_changes,
    format_overhead,
    gate,
    measurement,
    rounds,
    slices,
)
from toolcall_pipeline.testing.overhead.ablation import Allocations
from toolcall_pipeline.testing.overhead.measurement import Measurement, Options
from toolcall_pipeline.testing.overhead.measuring import Backend, run_measurement
from toolcall_pipeline.testing.overhead.rounds import Run
from toolcall_pipeline.testing.overhead.slices import Batch, Scenario, Spent

pytestmark = pytest.mark.long  # thousands of calls each

ADD = Call("add", {"a": 1, "b": 2})
BOTH: list[Backend] = ["asyncio", "trio"]


class Machine:
    """Stands in for the processor: time passes only where a test lets it, so noise has no part in a figure.

    Beside its stages a call takes 5 µs of CPU and a middleware that does nothing 200 ns; a turn of the loop around both
    takes 1 µs.
    """

    cpu = idle = queued = elsewhere = 0  # ns

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cpu = self.idle = self.queued = self.elsewhere = 0
        monkeypatch.setattr(slices, "thread_time_ns", lambda: self.cpu)
        monkeypatch.setattr(slices, "process_time_ns", lambda: self.cpu + self.elsewhere)
        monkeypatch.setattr(slices, "read_queued", lambda: self.queued)
        monkeypatch.setattr(slices, "perf_counter_ns", lambda: self.cpu + self.idle + self.queued)
        monkeypatch.setattr(measurement, "make_batch", self._make_batch)
        monkeypatch.setattr(measurement, "pass_on", nothing)
        monkeypatch.setattr(rounds, "Scenario", self._make_scenario)
        monkeypatch.setattr(measurement, "_SLICE", 0.00005)  # each call is as dear as the others, so a few are enough
        for module in (slices, rounds):
            monkeypatch.setattr(module, "probe", lambda: 300_000)
        monkeypatch.setattr(slices, "gc", SimpleNamespace(collect=int))  # it takes no time here

    async def sleep(self, nanoseconds: int) -> None:
        """Let others run meanwhile; sleeps at the same time take the time of one."""
        end = self.idle + nanoseconds
        await anyio.lowlevel.checkpoint()
        self.idle = max(self.idle, end)

    def _make_batch(self, run: Run, *args: Any, **options: Any) -> Batch:
        async def spend(call: Call) -> object:
            spin(5)
            return await run(call)

        return rounds.make_batch(spend, *args, **options)

    def _make_scenario(self, batch: Batch, *args: Any) -> Scenario:
        async def spend(times: int) -> None:
            spin(times)
            await batch(times)

        return Scenario(spend, *args)


MACHINE = Machine()


def spin(microseconds: float) -> None:
    MACHINE.cpu += round(1000 * microseconds)


async def nothing(call: Call, call_next: Handler[Call]) -> Outcome:
    spin(0.2)
    return await call_next(call)


async def before_30(call: Call, call_next: Handler[Call]) -> Outcome:
    spin(30)
    return await call_next(call)


async def both_300(call: Call, call_next: Handler[Call]) -> Outcome:
    spin(150)
    outcome = await call_next(call)
    spin(150)
    return outcome


async def sleeps(call: Call, call_next: Handler[Call]) -> Outcome:
    await MACHINE.sleep(2_000_000)
    return await call_next(call)


async def blocks(call: Call, call_next: Handler[Call]) -> Outcome:
    MACHINE.idle += 2_000_000
    return await call_next(call)


async def elsewhere(call: Call, call_next: Handler[Call]) -> Outcome:
    MACHINE.elsewhere += 40_000
    return await call_next(call)


def check_30(call: ValidCall) -> ValidCall:
    spin(30)
    return call


class Watch:
    def begin(self, tool: object, started: int) -> None:
        spin(30)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    MACHINE.install(monkeypatch)
    return MACHINE


@attrs.define
class World:
    """Tools that count how often they run."""

    tools: ToolRegistry
    runs: dict[str, int]


@pytest.fixture
def world() -> World:
    tools, runs = ToolRegistry(), {"add": 0, "order": 0, "sync": 0}

    @tools.tool(effect="read")
    async def add(a: int, b: int) -> int:
        runs["add"] += 1
        return a + b

    @tools.tool
    async def order(article: str) -> str:
        runs["order"] += 1
        return article

    @tools.tool(effect="idempotent")
    def sync(n: int) -> int:
        runs["sync"] += 1
        return n

    return World(tools, runs)


def quick(pipeline: Pipeline, call: Any = ADD, **options: Any) -> Overhead:
    few: dict[str, Any] = {"builds": 3, "seconds": 1.0, "failures": False, "stages": [], **options}
    return measure(pipeline, call, **few)


@pytest.mark.parametrize("backend", BOTH)
def test_known_costs_are_told(world: World, backend: Backend) -> None:
    """CPU before, after and in a check is told, beside stages that cost far more; so is that of an observer."""
    pipeline = standard(world.tools).replace("trace", Watch())
    for stage in (nothing, before_30, both_300, check_30, elsewhere):
        pipeline = pipeline.after("validate", stage)
    names = ["trace", "check_30", "before_30", "both_300", "nothing", "elsewhere"]
    told = quick(pipeline, stages=names, backend=backend)
    costs = {each.name: each.figure.ns for each in told.stages if each.figure is not None}
    assert costs == pytest.approx(dict(zip(names, (30_000, 30_000, 30_000, 300_000, 200, 0), strict=True)))
    assert told["elsewhere"].figure is not None
    assert told["elsewhere"].figure.elsewhere_ns == pytest.approx(40_000)
    assert (told.whole.ns, told.no_op.ns) == pytest.approx((395_200, 200))
    assert told.rest == pytest.approx(5_000)


@pytest.mark.parametrize(("stage", "blocking"), [(sleeps, False), (blocks, True)])
@pytest.mark.parametrize("backend", BOTH)
def test_waits_are_told_apart_from_cpu(
    world: World, stage: Callable[..., Any], *, blocking: bool, backend: Backend
) -> None:
    """A wait is no CPU, and one that holds up the event loop is called so."""
    told = quick(standard(world.tools).after("validate", stage), stages=[stage.__name__], backend=backend)
    (cost,) = told.stages
    assert cost.figure is not None
    assert (cost.figure.ns, cost.figure.waited_ns) == pytest.approx((0, 2_000_000))
    assert cost.blocks_loop == blocking
    assert told.calls_per_second == pytest.approx(1e9 / (5_000 + 2_000_000 / (1 if blocking else 100)), rel=0.01)


def test_the_clocks_of_a_slice_are_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice finds at least the CPU and the wait that took place in it, of each thread in its own figure."""
    monkeypatch.undo()

    def burn(nanoseconds: int) -> None:
        end = time.thread_time_ns() + nanoseconds
        while time.thread_time_ns() < end:
            pass

    async def work(times: int) -> None:
        burn(200_000 * times)
        other = threading.Thread(target=burn, args=(300_000 * times,))
        other.start()
        other.join()
        time.sleep(0.02 * times)  # noqa: ASYNC251  # the wait that is to be found

    spent = anyio.run(Scenario(work).spend)
    assert spent.cpu >= 200_000
    assert spent.waited >= 10_000_000
    assert spent.elsewhere >= 250_000


@pytest.mark.parametrize("paused", range(12))
def test_a_pause_does_not_decide_how_long_a_slice_is(paused: int) -> None:
    """Whenever the process is stopped for two seconds, a slice has as many calls as without that."""
    timed = 0

    async def work(times: int) -> None:
        nonlocal timed
        spin(10 * times)
        MACHINE.idle += 50_000 * times + 2_000_000_000 * (timed == paused)
        timed += 1

    scenario = Scenario(work)
    anyio.run(scenario.prepare, 0.0005)
    assert timed >= 4
    assert scenario.times == 50


def test_a_stage_that_is_needed_is_replaced_by_a_pass_through(world: World) -> None:
    """What the pipeline can do without is left out, and the rest has a pass-through in its place."""
    told = quick(standard(world.tools), stages=None)
    assert [each.name for each in told.stages] == list(standard(world.tools).stages)
    assert {each.name: each.how for each in told.stages} == {
        "trace": "left out",
        "resolve": "pass-through",
        "available": "left out",
        "validate": "pass-through",
        "retry": "left out",
        "classify": "pass-through",
        "execute": "pass-through",
    }
    assert told["retry"].allocations is not None
    assert told["retry"].allocations.peak_bytes > 0


@pytest.mark.parametrize("micros", [0, 300], ids=["cheap", "costly"])
def test_a_stage_without_which_calls_end_otherwise_has_no_figure(world: World, micros: int) -> None:
    """No figure rather than that of another pipeline, also where the stage that needs it is too costly to stand by."""
    key = StateKey[str]("who")

    async def sign(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        return await call_next(call.with_state(key, "me"))

    async def ask(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        call.get_state(key)
        spin(micros)
        return await call_next(call)

    pipeline = standard(world.tools).after("validate", ask).after("validate", sign)
    told = quick(pipeline, stages=["sign", "ask"])
    assert told["sign"].figure is None
    assert told["ask"].figure is not None
    assert "cannot be told" in format_overhead(told)
    with pytest.raises(SetupError, match="what 'sign' costs cannot be told"):
        assert_overhead(pipeline, ADD, stage="sign", below=10)


@pytest.mark.parametrize("kind", ["middleware", "check"])
def test_a_stage_that_decides_is_measured_by_itself(world: World, kind: str) -> None:
    """It is given the calls of its place, and its inside answers as it did; or the test is skipped, or refused."""
    key = StateKey[str]("who")

    async def sign(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        spin(300)
        return await call_next(call.with_state(key, "me"))

    def mark(call: ValidCall) -> ValidCall:
        spin(300)
        return call.with_state(key, "me")

    async def ask(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        call.get_state(key)
        return await call_next(call)

    stage: Any = sign if kind == "middleware" else mark
    pipeline = standard(world.tools).after("validate", ask).after("validate", stage)
    with pytest.raises(SetupError, match='with failing="alone" it is measured by itself'):
        assert_overhead(pipeline, ADD, stage=stage.__name__, below=10)
    with pytest.raises(SkipTest, match="cannot be told"):
        assert_overhead(pipeline, ADD, stage=stage.__name__, below=10, failing="skip")
    found = assert_overhead(pipeline, ADD, stage=stage.__name__, below_us=100_000, failing="alone", tries=5)
    assert found.alone
    assert found.ns > 150_000
    assert "µs, measured by itself" in str(found)
    with pytest.raises(AssertionError, match=r"in 1 tries; below 2 is allowed and less than 100 µs is allowed"):
        assert_overhead(pipeline, ADD, stage=stage.__name__, below=2, below_us=100, failing="alone", tries=1)


@pytest.mark.parametrize("stage", ["trace", "resolve", "validate", "classify", "execute"])
def test_a_stage_of_the_standard_by_itself(world: World, stage: str) -> None:
    """A check and a middleware can be; the observer and the end are refused."""
    pipeline = standard(world.tools)

    async def alone(measurement: Measurement) -> Figure:
        return await measurement.measure_alone(stage)

    options = Options(builds=3, seconds=0.1)
    if stage in ("trace", "execute"):
        with pytest.raises(SetupError, match="neither a check nor a middleware"):
            run_measurement("x", pipeline, ADD, options, alone)
    else:
        assert run_measurement("x", pipeline, ADD, options, alone).ns >= 0


@pytest.mark.parametrize("options", [{}, {"below": 0}, {"below_us": -1}, {"below": 1, "failing": "no"}])
def test_limits_that_are_none(world: World, options: Any) -> None:
    """A gate without a limit lets everything pass, so it is refused."""
    with pytest.raises(SetupError, match="assert_overhead"):
        assert_overhead(standard(world.tools), ADD, stage="retry", **options)


@pytest.mark.parametrize(("there", "place"), [(2_000, 1_800), (650, 0)], ids=["dear", "within the noise"])
def test_a_place_that_makes_others_dearer_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, there: float, place: float
) -> None:
    """Where a middleware that does nothing costs more than right outside the end, the place is what costs."""
    monkeypatch.setattr(Measurement, "_compare", AsyncMock(return_value=Figure(there, (0, 0), 100)))
    monkeypatch.setattr(Measurement, "measure_no_op", AsyncMock(return_value=Figure(200, (0, 0), 10)))

    async def look(measurement: Measurement) -> list[StageCost]:
        no_op = await measurement.measure_no_op()
        costs = [StageCost(name, "wrap", Figure(5_000, (0, 0), 10)) for name in ("nothing", "retry")]
        costs.append(StageCost("validate", "check", Figure(5_000, (0, 0), 10)))
        return [await measurement.measure_place(each, no_op) for each in costs]

    pipeline = standard(world.tools).before("resolve", nothing)
    told = run_measurement("x", pipeline, ADD, Options(), look)
    assert [each.place_ns for each in told] == [place, place, 0]
    shown = format_overhead(attrs.evolve(make_overhead(), stages=tuple(told)))
    assert shown.count("its place makes others dearer: 1.80 µs of it") == (2 if place else 0)


def test_which_stages_have_a_figure_does_not_depend_on_noise(world: World) -> None:
    """A stage that stands in for another one has a figure, also where a disturbed core makes the other look costly."""
    key = StateKey[str]("who")

    async def sign(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        return await call_next(call.with_state(key, "me"))

    def ask(call: ValidCall) -> ValidCall:
        call.get_state(key)
        return call

    pipeline = standard(world.tools).after("validate", ask)
    for name in ("first", "second"):
        pipeline = pipeline.after("validate", sign, name=name)

    async def run(costly: str) -> list[Figure | None]:
        async with Measurement.begin(pipeline, [ADD], Options(builds=3)) as taken:
            taken.costly = frozenset([costly])
            return [(await taken.measure_stage(name)).figure for name in ("first", "second")]

    assert None not in [*anyio.run(run, "first"), *anyio.run(run, "second"), *anyio.run(run, "retry")]


@pytest.mark.parametrize(
    ("call", "runs"),
    [(ADD, 1), (Call("order", {"article": "a"}), 0), (Call("sync", {"n": 1}), 0)],
    ids=["read", "mutating", "idempotent"],
)
def test_no_tool_runs_but_one_that_reads_once(world: World, call: Call, runs: int) -> None:
    """A stand-in answers in place of each body; afterwards the tools are as they were."""
    before = {tool.name: (tool.fn, tool.run_in, tool.anywhere) for tool in world.tools}
    quick(standard(world.tools), call, failures=call is ADD)
    assert sum(world.runs.values()) == runs
    assert {tool.name: (tool.fn, tool.run_in, tool.anywhere) for tool in world.tools} == before


def test_no_tool_runs_for_an_example_or_a_given_result(world: World) -> None:
    """Without a call an example is measured, and nothing has to be learnt."""
    assert quick(standard(world.tools), None).calls == ("add",)
    quick(standard(world.tools), result=3)
    assert sum(world.runs.values()) == 0


def test_tools_run_if_they_are_asked_to(world: World) -> None:
    """``run_tools`` says that all effects are wanted."""
    quick(standard(world.tools), Call("order", {"article": "a"}), run_tools=True)
    assert world.runs["order"] > 100


def test_tools_are_put_back_when_a_stage_fails(world: World) -> None:
    """The real bodies are back also if a call fails later on."""
    before = [tool.fn for tool in world.tools]
    with pytest.raises(SetupError, match="ends in 'permission' when it is repeated: the stage 'guard' limits"):
        quick(standard(world.tools).before("retry", LoopGuard(), name="guard"))
    assert [tool.fn for tool in world.tools] == before


def test_calls_take_turns(world: World) -> None:
    """With several calls a stage that counts equal ones lets them pass."""
    calls = [ADD, Call("add", {"a": 2, "b": 2})]
    assert quick(standard(world.tools).before("retry", LoopGuard()), calls).calls == ("add", "add")


def test_several_calls_at_a_time(world: World) -> None:
    """With ``concurrency`` a wait is still that of one call."""
    told = quick(standard(world.tools).after("validate", sleeps), stages=["sleeps"], concurrency=4)
    assert told.concurrency == 4
    assert told["sleeps"].figure is not None
    assert told["sleeps"].figure.waited_ns == pytest.approx(2_000_000, rel=0.2)


def test_the_failures_of_all_kinds_are_told(world: World) -> None:
    """Each kind has a figure, and no body runs for it."""
    told = quick(standard(world.tools), result=3, failures=True)
    assert set(told.failures) >= {"unknown_tool", "malformed_call", "validation", "transient", "timeout", "internal"}
    assert len(told.failures) == 15
    assert sum(world.runs.values()) == 0


def test_the_kinds_of_failures_do_not_depend_on_noise(world: World) -> None:
    """Whichever stages a disturbed core makes look costly, each kind has a figure."""
    pipeline = standard(world.tools)

    async def run(costly: frozenset[str]) -> set[str]:
        options = Options(builds=3, seconds=0.1, result=3)
        async with Measurement.begin(pipeline, [ADD], options) as taken:
            taken.costly = costly
            return set(await taken.measure_failures())

    kinds = anyio.run(run, frozenset[str]())
    for costly in ({"validate"}, {"execute"}, set(pipeline.stages)):
        assert anyio.run(run, frozenset(costly)) == kinds, costly
    assert len(kinds) == 15


def test_a_pipeline_is_opened_and_closed(world: World) -> None:
    """A stage that is a context manager is open while it is measured."""
    states: list[str] = []

    class Held:
        async def __aenter__(self) -> None:
            states.append("open")

        async def __aexit__(self, *_: object) -> None:
            states.append("closed")

        async def __call__(self, call: Call, call_next: Handler[Call]) -> Outcome:
            return await call_next(call)

    quick(standard(world.tools).after("validate", Held()), stages=["held"])
    assert states == ["open", "closed"]


def test_a_stage_behind_a_cache_costs_nothing_as_it_does_not_run(world: World) -> None:
    """Stages are measured as they are reached in this pipeline, so what a cache answers for is free."""
    pipeline = standard(world.tools).after("validate", before_30).after("validate", Cache(60))
    told = quick(pipeline, stages=["cache", "before_30"])
    assert told["cache"].figure is not None
    assert told["cache"].figure.ns == pytest.approx(-30_000)  # what it spares
    assert told["before_30"].figure is not None
    assert told["before_30"].figure.ns == pytest.approx(0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"call": Call("ad", {})}, "the call of 'ad' names no tool: .* Did you mean: add"),
        ({"call": Call("add", {})}, "the call of 'add' fails, validation"),
        ({"call": []}, "`call` must hold one call at least"),
        ({"stages": ["nope"]}, "there is no stage 'nope'; there are: trace, resolve"),
        ({"concurrency": 0}, "`concurrency` must be an integer ≥ 1, not 0"),
        ({"builds": 2}, "`builds` must be an integer ≥ 3, not 2"),
        ({"seconds": 0}, "`seconds` must be"),
    ],
)
def test_what_cannot_be_measured_is_refused(world: World, options: dict[str, Any], text: str) -> None:
    """The text names what was given and what is allowed."""
    with pytest.raises(SetupError, match=text):
        quick(standard(world.tools), **options)


def test_a_pipeline_without_an_example_wants_a_call() -> None:
    """There is no call to make up for a pipeline without tools."""
    with pytest.raises(SetupError, match="give a call"):
        quick(standard(ToolRegistry()), None)


@pytest.mark.parametrize(
    ("spent", "ns", "noisy"),
    [
        ([Spent(100.0)] * 9, 100, False),
        ([Spent(40.0)] * 9, 40, True),
        ([Spent(each) for each in (-900.0, -500.0, -100.0, 60.0, 80.0, 500.0, 900.0)], 60, True),
        ([Spent(10.0, 5000.0)] * 9, 10, False),
    ],
)
def test_a_figure_knows_whether_it_is_noise(spent: list[Spent], ns: float, *, noisy: bool) -> None:
    """Below the notch of the box plot, or below what the layout of memory moves, a figure may as well be nothing."""
    figure = Figure.of(spent)
    assert (figure.ns, figure.within_noise) == (ns, noisy)


def make_run(**costs: tuple[float, float]) -> dict[str, Any]:
    """A run with stages of that CPU and wait, in ns."""
    stages = tuple(
        StageCost(name, "wrap", Figure(cpu, (cpu * 0.98, cpu * 1.02), 1, waits)) for name, (cpu, waits) in costs.items()
    )
    return make_overhead(*stages).as_json()


def make_overhead(*stages: StageCost) -> Overhead:
    whole = Figure(5000, (4900, 5100), 20)
    return Overhead(
        stages, whole, Figure(200, (190, 210), 5), {}, Allocations(1800, 9, 0), 1e5, 100, "asyncio", 1, (), 3e5
    )


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        ((1000, 0), (1030, 0), "same"),
        ((1000, 0), (1200, 0), "worse"),
        ((1000, 0), (800, 0), "better"),
        ((100, 0), (140, 0), "same"),
        ((1000, 0), (1000, 1e6), "worse"),
        ((1000, 1e6), (1000, 2e4), "better"),
    ],
)
def test_two_runs_are_compared(before: tuple[float, float], now: tuple[float, float], verdict: str) -> None:
    """A figure moved if the quartiles do not touch, and by more than 4 % and 50 ns; waits count."""
    (change, *_) = compare_runs(make_run(audit=before), make_run(audit=now))
    assert (change.what, change.verdict) == ("audit", verdict)


def test_stages_that_came_and_went_are_listed() -> None:
    """A stage that only one of the runs has is new or gone."""
    found = {each.what: each.verdict for each in compare_runs(make_run(old=(9, 0)), make_run(new=(9, 0)))}
    assert found == {"new": "new", "(whole)": "same", "old": "gone"}
    assert "gone" in format_changes(compare_runs(make_run(old=(9, 0)), make_run()))


def test_another_speed_of_the_machine_is_told() -> None:
    """Two runs of one machine say nothing; a probe that took a third longer does."""
    assert explain_speed({"probe_ns": 300}, {"probe_ns": 310}) == ""
    assert "1.33 times as long" in explain_speed({"probe_ns": 300}, {"probe_ns": 400})


def test_the_json_has_what_was_measured_and_not_where() -> None:
    """Each stage has its name, its ns and its quartiles; nothing identifies the machine."""
    found = make_run(audit=(1000, 0))
    assert {"name": "audit", "ns": 1000, "quartiles": [980, 1020]}.items() <= found["stages"][0].items()
    assert json.loads(json.dumps(found)) == found
    assert "/" not in json.dumps([found["python"], found["platform"]])


def test_the_table_and_the_chart_show_every_stage() -> None:
    """A line and a bar for each stage; noise and blocking are named."""
    noise = StageCost("quiet", "check", Figure(3, (-20, 30), 10))
    told = make_overhead(StageCost("a<b", "wrap", Figure(900, (880, 950), 9, 2e6), blocks_loop=True), noise)
    text = format_overhead(told)
    assert next(line for line in text.splitlines() if line.startswith("quiet")).endswith("within noise")
    assert next(line for line in text.splitlines() if line.startswith("a<b")).endswith("blocks the loop")
    chart = ET.fromstring(draw_bars(told, "mod:pipeline"))
    texts = ["".join(each.itertext()) for each in chart]
    assert {"a<b", "quiet", "within noise", "CPU", "waiting", "What each stage of mod:pipeline costs"} <= set(texts)


def test_a_chart_of_nothing_is_a_chart() -> None:
    """A pipeline whose stages could not be told has an empty chart."""
    ET.fromstring(draw_bars(make_overhead(), "x"))


def test_the_gate_holds_a_stage_to_a_ratio(world: World) -> None:
    """A middleware of nothing is below ten of its kind; one that spins is not, and the text has the figures."""
    pipeline = standard(world.tools).after("validate", both_300).after("validate", nothing)
    assert_overhead(pipeline, ADD, stage="nothing", below=20)
    with pytest.raises(AssertionError, match=r"both_300 costs .* times a middleware that does nothing, in 1 tries"):
        assert_overhead(pipeline, stage="both_300", below=20, tries=1)


@pytest.mark.parametrize(("noise", "builds"), [(50, [3, 3]), (2_000, [3, 3, 7, 7])], ids=["clear", "within the noise"])
def test_the_gate_takes_few_builds_where_they_are_clear(
    world: World, monkeypatch: pytest.MonkeyPatch, noise: float, builds: list[int]
) -> None:
    """The stage and the unit are built three times, and seven times only where the noise could change the answer."""
    taken: list[int] = []

    async def measure_stage(self: Measurement, name: str) -> StageCost:
        taken.append(self.bench.builds)
        return StageCost(name, "wrap", Figure(1_000, (0, 0), noise))

    async def measure_no_op(self: Measurement) -> Figure:
        taken.append(self.bench.builds)
        return Figure(200, (0, 0), 10)

    monkeypatch.setattr(Measurement, "find_costly", AsyncMock())
    monkeypatch.setattr(Measurement, "measure_stage", measure_stage)
    monkeypatch.setattr(Measurement, "measure_no_op", measure_no_op)
    assert_overhead(standard(world.tools), ADD, stage="retry", below=10)
    assert taken == builds


@pytest.mark.parametrize("unit", [0.0, -30.0])
def test_a_unit_that_noise_hides_lets_nothing_pass(world: World, monkeypatch: pytest.MonkeyPatch, unit: float) -> None:
    """A disturbed core may make the unit look free: then the stage is built more often, and is not below any limit."""
    taken: list[int] = []

    async def measure_stage(self: Measurement, name: str) -> StageCost:
        taken.append(self.bench.builds)
        return StageCost(name, "wrap", Figure(1_000, (0, 0), 10))

    monkeypatch.setattr(Measurement, "find_costly", AsyncMock())
    monkeypatch.setattr(Measurement, "measure_stage", measure_stage)
    monkeypatch.setattr(Measurement, "measure_no_op", AsyncMock(return_value=Figure(unit, (0, 0), 10)))
    with pytest.raises(AssertionError, match=r"retry costs inf times"):
        assert_overhead(standard(world.tools), ADD, stage="retry", below=10, tries=1)
    assert taken == [3, 7]


@pytest.mark.parametrize(("ratios", "passes"), [([9.0], True), ([11.0, 9.0], True), ([11.0, 12.0, 13.0], False)])
def test_the_gate_tries_again(
    world: World, monkeypatch: pytest.MonkeyPatch, ratios: list[float], *, passes: bool
) -> None:
    """One try below the limit is enough: a cost would be there each time."""
    left = iter(ratios)

    def found(*_: object) -> object:
        return gate.Found(Figure(next(left) * 200, (0, 0), 0), Figure(200, (0, 0), 0))

    monkeypatch.setattr(gate, "run_measurement", found)
    pipeline = standard(world.tools)
    if passes:
        assert_overhead(pipeline, stage="retry", below=10)
    else:
        with pytest.raises(AssertionError, match=r"retry costs 11\.0, 12\.0, 13\.0 times"):
            assert_overhead(pipeline, stage="retry", below=10)
    assert not list(left)
