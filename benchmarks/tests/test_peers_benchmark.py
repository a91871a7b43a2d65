"""The comparison with agent frameworks: what is judged, what is written, and ours through the whole of it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import attrs
import pytest

from benchmarks.peers import in_ours
from benchmarks.peers.__main__ import ROOT, main, measure
from benchmarks.peers.catalogue import OURS, PEERS, REASONS
from benchmarks.peers.chart import choose_colour, draw_chart
from benchmarks.peers.exporting import Recorder
from benchmarks.peers.functions import SECRET_OF_A_CRASH
from benchmarks.peers.judging import judge
from benchmarks.peers.results import Cell, find_faults, merge, to_json
from benchmarks.peers.scenarios import BY_KEY, SCENARIOS
from benchmarks.peers.table import find_cheaper, write_table
from benchmarks.peers.timing import Effort

ABOUT: dict[str, object] = dict.fromkeys(("command", "date", "python", "cores", "load", "rounds"), "x")
FOLDER = ROOT / "benchmarks" / "peers"


def found(cost: float, **changes: Any) -> dict[str, Any]:
    """What a process writes of a subject that answers all calls well."""
    good: dict[str, Any] = {"told": "5", "died": "", "right": True, "leaked": [], "begun": 1, "done": 0, "spans": 0}
    cells = {each.key: good | {"cost": cost} | changes for each in SCENARIOS}
    return {"paths": {"": "its entry"}, "versions": {"package": "1"}, "variants": {"": cells}}


def test_ours_passes_every_scenario(tmp_path: Path) -> None:
    """The run survives, the result comes where it can, nothing leaks, and nothing takes effect twice."""
    assert main(["--only", OURS, "--quick", "--results", str(tmp_path)]) == 0
    [ours, undeclared, calls_only, plain] = json.loads((tmp_path / "peers.json").read_text())["rows"]
    assert set(ours["scenarios"]) == set(BY_KEY)
    for key, cell in ours["scenarios"].items():
        assert find_faults(BY_KEY[key], Cell(**{name: cell[name] for name in attrs.fields_dict(Cell)})) == [], key
    assert ours["scenarios"]["lost_answer"]["done"] == ours["scenarios"]["lost_answer"]["begun"] == 1
    assert ours["scenarios"]["503_once"]["begun"] == 2
    assert undeclared["scenarios"]["503_once"]["begun"] == 1
    assert set(calls_only["scenarios"]) == {each.key for each in SCENARIOS if each.traced}
    assert plain["scenarios"]["503_once"]["begun"] == 1
    assert ours["scenarios"]["traced"]["spans"] > calls_only["scenarios"]["traced"]["spans"] > 0
    ET.fromstring((tmp_path / "peers.svg").read_text())
    assert "## Who does more" in (tmp_path / "peers.md").read_text()


async def test_a_judge_sees_what_went_wrong() -> None:
    """A run that dies, and a secret that the model reads."""

    async def leak() -> list[str]:
        return [f"Error: {SECRET_OF_A_CRASH}"]

    async def die() -> list[str]:
        raise KeyError

    recorder = Recorder()
    assert (await judge(BY_KEY["raising_tool"], leak, recorder.take)).leaked == ["exception in the text"]
    verdict = await judge(BY_KEY["success"], die, recorder.take)
    assert (verdict.died, verdict.told, verdict.right) == ("KeyError", "", False)


@pytest.mark.parametrize(
    ("key", "changes", "fault"),
    [
        ("raising_tool", {"died": "ValueError"}, "the run ends: ValueError"),
        ("json_text", {"right": False}, "no result"),
        ("lost_answer", {"done": 3}, "took effect 3 times"),
        ("bad_parameter", {"done": 1}, "the tool ran"),
        ("traced", {"leaked": ["argument in the trace"]}, "secret: argument in the trace"),
    ],
)
def test_each_fault_is_told_and_coloured(key: str, changes: dict[str, Any], fault: str) -> None:
    """In words in the table, and in another colour than what went well in the chart."""
    good, bad = merge({OURS: [found(1)], "adk": [found(2, **changes)]})
    assert find_faults(BY_KEY[key], bad.cells[key]) == [fault]
    assert choose_colour(BY_KEY[key], good) != choose_colour(BY_KEY[key], bad)
    assert fault in write_table([good, bad], ABOUT, {})


def test_figures_are_medians_beside_ours() -> None:
    """The median of the processes, and its ratio to that of ours."""
    rows = merge({OURS: [found(10), found(12), found(50)], "mcp": [found(24), found(6), found(30)]})
    [ours, theirs] = [row["scenarios"]["success"] for row in _rows(to_json(rows, ABOUT, {}))]
    assert (ours["loops"], theirs["loops"], theirs["times_ours"]) == (12, 24, 2)


def test_what_is_cheaper_than_ours_is_named_with_the_reason() -> None:
    """Each scenario in which another one costs less."""
    rows = merge({OURS: [found(10)], "mcp": [found(4)], "adk": [found(6)], "strands": [found(60)]})
    page = write_table(rows, ABOUT, {"langchain": "no such environment"})
    assert [row.name for row in find_cheaper(rows)["success"]] == ["mcp", "adk"]
    assert all(reason in page for reason in REASONS.values())
    assert "LangChain is not in the tables: no such environment" in page
    assert "Nothing does." in write_table(merge({OURS: [found(1)]}), ABOUT, {})


def test_a_chart_has_a_bar_for_each_and_a_cell_for_each_scenario() -> None:
    """Longer for what costs more."""
    rows = merge({OURS: [found(10)], "mcp": [found(400)]})
    rects = [each.attrib for each in ET.fromstring(draw_chart(rows, "a < b")).iter() if each.tag.endswith("rect")]
    short, long = [float(each["width"]) for each in rects if each["height"] == "14"]
    assert 0 < short < long
    assert len([each for each in rects if each["height"] == "24"]) == 2 * (len(SCENARIOS) - 1)


def test_a_subject_that_cannot_be_measured_is_left_out_and_named(tmp_path: Path, capsys: Any) -> None:
    """Its environment is missing, or it fails: the others are written, and the exit code says so."""
    assert main(["--only", "mcp", "--quick", "--environments", str(tmp_path), "--results", str(tmp_path)]) == 1
    assert "MCP SDK could not be measured" in capsys.readouterr().err
    assert "MCP SDK is not in the tables" in (tmp_path / "peers.md").read_text()
    with pytest.raises(RuntimeError, match="in_nobody"):
        measure(Path(sys.executable), "nobody", Effort(1, 0.001, 1))


def test_every_peer_has_a_module_and_an_environment() -> None:
    """The catalogue, the modules and the environments name the same ones, and each has a reason for every scenario."""
    modules = {file.stem.removeprefix("in_") for file in FOLDER.glob("in_*.py")}
    environments = (ROOT / "make" / "environments.txt").read_text()
    assert modules == set(PEERS) == {OURS, *re.findall(r"^peers/(\w+):", environments, re.MULTILINE)}
    assert set(REASONS) == set(BY_KEY)
    assert set(in_ours.ONLY) < set(in_ours.VARIANTS)


def _rows(results: Any) -> Any:
    return results["rows"]
