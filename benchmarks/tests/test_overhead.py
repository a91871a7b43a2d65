"""benchmarks.overhead: a quick run measures every row, and no budget is missed by far; busy machines allow no more."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import Mock

import anyio
import attrs
import pytest

from benchmarks.overhead import __main__ as overhead
from benchmarks.overhead import counted, measure
from benchmarks.overhead.counted import CountedRow
from benchmarks.overhead.importing import LOADING
from benchmarks.overhead.measure import Effort
from benchmarks.overhead.processes import undisturbed
from benchmarks.overhead.results import LAST_RUN, Result
from benchmarks.overhead.rows import Group, Row
from benchmarks.overhead.table import BY_NAME, GROUPS
from toolcall_pipeline.testing.overhead import rounds, slices
from toolcall_pipeline.testing.overhead.rounds import Core

ROOT = Path(__file__).parents[2]
ROWS = [row for group in GROUPS for row in group.rows]
ALL = tuple(each.name for each in GROUPS)
IN_RATIOS = tuple(
    row.what
    for row in ROWS
    if row.budget is not None and row.over is not None and row.less is None  # differences need more than a quick run
)
Rows: TypeAlias = dict[str, dict[str, Any]]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.overhead", "--quick", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def measured_in(folder: Path, groups: Iterable[str] = ALL) -> dict[str, Any]:
    file = folder / "measured.json"
    done = run("--json", str(file), "--only", ",".join(groups))
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def rows_of(found: dict[str, Any]) -> Rows:
    return {row["what"]: row for row in found["rows"]}


def too_dear(rows: Rows, of: Iterable[str]) -> set[str]:
    return {what for what in of if rows[what]["median"] > 2 * rows[what]["budget"]}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return measured_in(tmp_path_factory.mktemp("overhead"))


@pytest.fixture
def rows(found: dict[str, Any]) -> Rows:
    return rows_of(found)


@pytest.fixture(scope="module")
def always_too_dear(found: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The rows that are too dear in each of up to four runs: a cost is there each time, a busy neighbour is not."""
    over = too_dear(rows_of(found), IN_RATIOS)
    for _ in range(3):
        if not over:
            break
        groups = [group.name for group in GROUPS if over & {row.what for row in group.rows}]
        over = too_dear(rows_of(measured_in(tmp_path_factory.mktemp("again"), groups)), over)
    return over


def test_a_quick_run_measures_every_row(rows: Rows) -> None:
    """A quick run measures all that a full one does, and its JSON holds the figure of each process."""
    assert list(rows) == [row.what for row in ROWS]
    assert all(1 <= len(row["figures"]) <= overhead.QUICK.processes for row in rows.values())


def test_the_json_says_what_was_measured_with_and_not_where(found: dict[str, Any]) -> None:
    """Versions, interpreter and platform are in the JSON; no path and no host name is."""
    assert set(found) == {"python", "platform", "cores", "versions", "effort", "rows"}
    assert "/" not in json.dumps([found["python"], found["platform"], found["versions"]])


@pytest.mark.parametrize("what", IN_RATIOS)
def test_no_ratio_is_twice_its_budget(always_too_dear: set[str], what: str) -> None:
    """No ratio is above twice its budget in run after run."""
    assert what not in always_too_dear


def test_a_ratio_above_twice_its_budget_is_found(rows: Rows) -> None:
    """A row is too dear as soon as it costs more than twice its budget, and not before."""
    twice = {what: {**row, "median": 2 * row["budget"]} for what, row in rows.items() if what in IN_RATIOS}
    beyond = {what: {**row, "median": 2.1 * row["budget"]} for what, row in twice.items()}
    assert (too_dear(twice, IN_RATIOS), too_dear(beyond, IN_RATIOS)) == (set(), set(IN_RATIOS))


def test_importing_brings_no_heavy_module_along(rows: Rows) -> None:
    """Importing both and building a pipeline imports no validator, no SDK, no scorer and no terminal library."""
    assert set(rows["heavy modules that a pipeline loads"]["figures"]) == {0.0}


def test_a_call_in_flight_stays_small(rows: Rows) -> None:
    """An unwatched call that waits for its tool holds less than twice its budget of memory."""
    row = rows["a call, beyond its task with the plain tool"]
    assert row["median"] <= 2 * row["budget"]


def test_every_row_has_a_name_of_its_own() -> None:
    """Rows are found by their names, in the JSON and in comparisons."""
    names = [row.what for group in BY_NAME.values() for row in group.rows]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param(Row("x", "µs", "it"), 6, id="the cost itself"),
        pytest.param(Row("x", "loops", "it", "loop"), 3, id="in units of another"),
        pytest.param(Row("x", "loops", "it", "loop", less="rest"), 2.5, id="less a third"),
        pytest.param(Row("x", "loops", "it", "loop", less="rest", count=5), 0.5, id="for each of five"),
    ],
)
def test_a_figure_is_computed_from_the_costs_of_one_round(row: Row, expected: float) -> None:
    """A figure is (subject - less) / over / count."""
    assert row.figure({"it": 6, "loop": 2, "rest": 1}) == expected


@attrs.define
class Drifting:
    """A scenario whose every slice costs one more than the slice before it, whichever that was."""

    clock: list[int]
    order: list[str]
    name: str

    async def prepare(self, seconds: float) -> None: ...

    async def slice(self) -> float:
        self.order.append(self.name)
        self.clock[0] += 1
        return self.clock[0]


def test_a_round_runs_there_and_back() -> None:
    """The scenarios of a round run as a, b, c, b, a: all have the same mean time, so steady drift cancels out."""
    clock, order = [0], list[str]()
    costs, _ = anyio.run(slices.palindrome, {name: Drifting(clock, order, name) for name in "abc"})
    assert order == list("abcba")
    assert costs == {"a": 3, "b": 3, "c": 3}


class Disturbed:
    """A core that is disturbed in every other round, and a scenario that costs twice as much then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.probes = 0  # two in each round
        monkeypatch.setattr(slices, "probe", self.probe)
        monkeypatch.setattr(rounds, "probe", lambda: 100)

    def probe(self) -> int:
        self.probes += 1
        return 200 if (self.probes - 1) // 2 % 2 else 100

    async def prepare(self, seconds: float) -> None: ...

    async def slice(self) -> float:
        return 2.0 if self.probes // 2 % 2 else 1.0


def test_rounds_on_a_disturbed_core_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure is the median of the undisturbed rounds, of which further ones are made in place of the others."""
    scenario = Disturbed(monkeypatch)
    group = Group("it", "it", (Row("it", "µs", "it"),), scenarios=lambda: pytest.fail("not asked for"))
    effort = Effort(rounds=5, slice=0.001, processes=1, spare=0, seconds=0, apart=True, patience=0)
    values = anyio.run(measure.measure, group, {"it": scenario}, Core(None, 0), effort)
    assert values["it"].figure == 1


def test_values_of_a_disturbed_process_do_not_count() -> None:
    """What was measured while the core never ran as fast as elsewhere is left out."""
    calm, disturbed = measure.Value(5, 100), measure.Value(4, 150)
    assert undisturbed([calm, disturbed], 100) == [calm]
    assert undisturbed([calm, disturbed], None) == [calm, disturbed]


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        pytest.param([5.0, 5.5, 6.0], "same", id="equal"),
        pytest.param([5.9, 6.1, 6.2], "same", id="ranges that touch"),
        pytest.param([4.0, 4.4, 4.9], "better", id="below"),
        pytest.param([6.1, 6.4, 6.6], "worse", id="above"),
    ],
)
def test_two_runs_differ_if_their_ranges_do_not_touch(figures: list[float], expected: str) -> None:
    """A row got better or worse only if every process says so."""
    before = {"median": 5.5, "figures": [5.0, 5.5, 6.0]}
    assert Result(Row("it", "loops", "it"), figures).compared(before) == expected


def test_a_step_of_less_than_four_percent_is_none() -> None:
    """Medians that differ by less than 4 % are the same, however narrow the ranges are."""
    before = {"median": 5.0, "figures": [5.0]}
    assert Result(Row("it", "loops", "it"), [5.1]).compared(before) == "same"


async def nothing() -> None: ...


UNIT, SUBJECT, MORE = (
    CountedRow("unit", nothing),
    CountedRow("subject", nothing, "unit", 4),
    CountedRow("one more", nothing, "subject", 0.5, more=True),
)


@pytest.mark.parametrize(("row", "figure"), [(UNIT, 100), (SUBJECT, 4.5), (MORE, 0.25)])
def test_a_counted_figure(monkeypatch: pytest.MonkeyPatch, row: CountedRow, figure: float) -> None:
    """A figure is the count, the ratio to the unit's count, or what lies beyond it in hand-written loops."""
    monkeypatch.setattr(counted, "LOOP", "unit")
    assert row.figure({"unit": 100, "subject": 450, "one more": 475}) == figure


@pytest.mark.parametrize(("subject", "over"), [(400, []), (401, ["subject"])])
def test_a_row_over_its_limit_is_named(subject: int, over: list[str]) -> None:
    """A row is over as soon as its figure is above its limit, and its line says so."""
    lines, found = counted.judge([UNIT, SUBJECT], {"unit": 100, "subject": subject})
    assert (found, lines[-1].endswith("over")) == (over, bool(over))


@pytest.mark.parametrize(
    ("others", "counts", "code"),
    [
        pytest.param([], {"unit": 100, "subject": 401}, 1, id="over"),
        pytest.param([], {"unit": 100, "subject": 400}, 0, id="within"),
        pytest.param(["pydantic 9"], {"unit": 100, "subject": 401}, 0, id="over, with other libraries"),
    ],
)
def test_the_guard_fails_if_a_row_is_over(
    monkeypatch: pytest.MonkeyPatch, others: list[str], counts: dict[str, int], code: int
) -> None:
    """``--guard`` fails if a row is over its limit, on the versions that the limits were set with."""
    monkeypatch.setattr(counted, "make_rows", lambda: [UNIT, SUBJECT])
    monkeypatch.setattr(counted, "judge_modules", Mock(return_value=([], [])))
    monkeypatch.setattr(counted, "count", lambda: counts)
    monkeypatch.setattr(counted, "find_other_versions", lambda: others)
    assert overhead.main(["--guard"]) == code


@pytest.mark.parametrize(("modules", "code"), [(7, 1), (6, 0)])
@pytest.mark.parametrize("others", [[], ["python 3.12"]])
def test_the_guard_fails_if_too_many_modules_are_loaded(
    monkeypatch: pytest.MonkeyPatch, modules: int, code: int, others: list[str]
) -> None:
    """Their number is the same on each machine and, within their budget, on each version."""
    row = LOADING.rows[0]
    results = [Result(row, [modules])]
    monkeypatch.setattr(counted, "run", Mock(return_value=results))
    monkeypatch.setattr(counted, "make_rows", list)
    monkeypatch.setattr(counted, "count", dict)
    monkeypatch.setattr(counted, "find_other_versions", lambda: others)
    assert overhead.main(["--guard"]) == code


def test_the_guard_without_valgrind(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Where valgrind is not installed, ``--guard`` says so, and fails nothing."""
    monkeypatch.setattr(counted, "judge_modules", Mock(return_value=([], [])))
    monkeypatch.setenv("PATH", "")
    assert overhead.main(["--guard"]) == 0
    assert "valgrind is not installed" in capsys.readouterr().out


def test_each_counted_row_has_a_name_and_a_unit() -> None:
    """Counted rows are found by their names, and each unit is a row."""
    rows = counted.make_rows()
    names = [row.what for row in rows]
    assert len(set(names)) == len(names)
    assert {row.unit for row in rows} <= {*names, None}


def test_the_last_run_can_be_compared_with() -> None:
    """The kept run names rows that there are."""
    kept = json.loads(LAST_RUN.read_text(encoding="utf-8"))["rows"]
    assert {row["what"] for row in kept} <= {row.what for row in ROWS}


def test_only_takes_names_of_groups() -> None:
    """``--only`` refuses an unknown group, and names those that there are."""
    done = run("--only", "spine,spines")
    assert done.returncode == 2
    assert "unknown group spines; known: spine, idle" in done.stderr
