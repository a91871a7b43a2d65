"""``toolcall bench``: figures on stdout, one JSON object with --json, a chart, a comparison, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

from cli_desk import Desk, open_desk
from toolcall_pipeline.cli import bench_command
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.testing import Overhead
from toolcall_pipeline.testing.overhead.measurement import Options
from toolcall_pipeline.testing.overhead.measuring import run_measurement

pytestmark = pytest.mark.long  # it measures

STAGES = ["trace", "resolve", "available", "validate", "retry", "classify", "execute"]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with open_desk(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds: what the figures are is for other tests."""

    def few(owner: str, pipeline: Any, calls: Any, options: Options, work: Any, bind: Any) -> Overhead:
        fewer = attrs.evolve(options, builds=3, seconds=0.5)
        found: Overhead = run_measurement(owner, pipeline, calls, fewer, work, bind)
        return found

    monkeypatch.setattr(bench_command, "run_measurement", few)


def bench(desk: Desk, *arguments: str, target: str = "pipeline") -> Result:
    return CliRunner().invoke(toolcall, ["bench", f"{desk.module}:{target}", *arguments])


ECHO = ("--call", "echo", '{"n": 5}')


@pytest.mark.parametrize("target", ["pipeline", "tools"])
def test_every_stage_has_a_line(desk: Desk, target: str) -> None:
    """The table names each stage, the whole, and what a loop carries; a registry is measured in the standard stack."""
    done = bench(desk, *ECHO, target=target)
    assert done.exit_code == 0
    firsts = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert firsts[: len(STAGES)] == STAGES
    assert "a call beyond its tool" in done.stdout
    assert "one loop carries" in done.stdout


@pytest.mark.parametrize("stages", [(), ("retry",)], ids=str)
def test_stderr_says_what_is_measured(desk: Desk, stages: tuple[str, ...]) -> None:
    """A line before each figure; with --stage there are no calls that fail, for they are no cost of a stage."""
    done = bench(desk, *ECHO, "--json", *(word for name in stages for word in ("--stage", name)))
    names = stages or STAGES
    assert done.stderr.splitlines() == [
        "measuring which stages cost the most",
        "measuring a middleware that does nothing",
        *(f"measuring stage {name} ({number} of {len(names)})" for number, name in enumerate(names, 1)),
        "measuring the whole call, and how many calls a loop carries",
        *([] if stages else ["measuring calls that fail"]),
    ]
    assert bool(json.loads(done.stdout)["failures"]) == (not stages)


def test_the_json_is_all_that_stdout_has(desk: Desk, tmp_path: Path) -> None:
    """One object with the stages; the chart goes to its file, and an earlier run is compared with."""
    chart, old = tmp_path / "chart.svg", tmp_path / "old.json"
    first = bench(desk, *ECHO, "--json", "--svg", str(chart), "--stage", "retry", "--stage", "validate")
    found = json.loads(first.stdout)
    assert [each["name"] for each in found["stages"]] == ["validate", "retry"]
    assert all(len(each["quartiles"]) == 2 for each in found["stages"])
    assert chart.read_text(encoding="utf-8").startswith("<svg ")
    old.write_text(first.stdout, encoding="utf-8")
    compared = bench(desk, *ECHO, "--stage", "retry", "--json", "--compare", str(old))
    verdicts = {each["what"]: each["verdict"] for each in json.loads(compared.stdout)["compared"]}
    assert verdicts["validate"] == "gone"
    assert verdicts["retry"] in ("better", "worse", "same")
    assert "before, µs" in bench(desk, *ECHO, "--stage", "retry", "--compare", str(old)).stdout


def test_calls_come_from_a_file_and_results_from_an_option(desk: Desk, tmp_path: Path) -> None:
    """The calls of a file take turns; a mutating tool answers with the given result, and does not run."""
    calls = tmp_path / "calls.jsonl"
    calls.write_text('{"name": "echo", "arguments": {"n": 1}}\n\n{"name": "exits"}\n', encoding="utf-8")
    done = bench(desk, "--calls", str(calls), "--result", "7", "--stage", "retry", "--json", "--backend", "trio")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["calls"] == ["echo", "exits"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--call", "ehco", "{}"], "the call of 'ehco' names no tool"),
        (["--call", "echo", "{}"], "the call of 'echo' fails, validation"),
        (["--call", "echo", '{"n": 1}', "--stage", "nope"], "there is no stage 'nope'; there are: trace, resolve"),
        (["--call", "echo", "{}", "--calls", "calls.jsonl"], "--call and --calls exclude each other"),
        (["--calls", "missing.jsonl"], "--calls missing.jsonl: No such file or directory"),
        (["--calls", "broken.jsonl"], "--calls broken.jsonl, line 1: not JSON"),
        (["--calls", "empty.jsonl"], "--calls empty.jsonl has no calls"),
        (["--result", "{"], "--result: not JSON"),
        (["--compare", "empty.jsonl"], "--compare empty.jsonl: not what `toolcall bench --json` has printed"),
        (["--compare", "missing.json"], "--compare missing.json: No such file or directory"),
    ],
)
def test_what_cannot_be_measured_ends_with_2(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    """One line says why, and stdout stays empty."""
    (tmp_path / "broken.jsonl").write_text("no call\n", encoding="utf-8")
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = bench(desk, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert text in done.stderr


@pytest.mark.parametrize(("target", "text"), [("nothing", "has no nothing"), ("running", "of type int")])
def test_a_target_that_is_no_pipeline_ends_with_2(desk: Desk, target: str, text: str) -> None:
    """As for the other commands."""
    done = bench(desk, target=target)
    assert (done.exit_code, done.stdout) == (2, "")
    assert text in done.stderr


def test_a_chart_that_cannot_be_written_ends_with_2(desk: Desk, tmp_path: Path) -> None:
    """The file and the reason are named."""
    done = bench(desk, *ECHO, "--stage", "retry", "--svg", str(tmp_path / "no" / "chart.svg"))
    assert (done.exit_code, "No such file or directory" in done.stderr) == (2, True)


@pytest.mark.long
def test_a_measured_pipeline_has_deps(desk: Desk) -> None:
    """The tool that reads runs once, with the deps, before the bodies are replaced."""
    asked = ["--deps", f"{desk.module}:shelf", "--call", "borrow", "{}", "--stage", "validate", "--json"]
    result = bench(desk, *asked)
    assert result.exit_code == 0, result.stderr
    assert [each["name"] for each in json.loads(result.stdout)["stages"]] == ["validate"]
