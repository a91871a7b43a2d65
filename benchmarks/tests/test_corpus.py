"""benchmarks.corpus: what it counts on a few hand-written calls, and on the recordings if there are any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from benchmarks.corpus import __main__ as corpus
from benchmarks.corpus import measurement, recordings, verdicts
from toolcall_pipeline import Call, Handler, Outcome, Pipeline, ToolRegistry, ValidCall
from toolcall_pipeline.middlewares import standard

STRICT = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
LENIENT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [
    {"suite": "hand", "tool_id": "t1", "tool": "forecast", "json_schema": STRICT, "description": ""},
    {"suite": "hand", "tool_id": "t2", "tool": "note", "json_schema": LENIENT, "description": ""},
    {"suite": "bare", "tool_id": "t3", "tool": "anything", "json_schema": None, "description": ""},
]
TOOLSETS = [
    {"suite": "hand", "toolset": "all", "tools": {"forecast": "t1", "note": "t2"}},
    {"suite": "bare", "toolset": "all", "tools": {"anything": "t3"}},
]


def a_row(id_: str, tool: str, arguments: object, *mistakes: str, suite: str = "hand", **more: object) -> Any:
    outcome = "unknown_tool" if "name_kind" in more else "invalid_params" if mistakes else "ok"
    return {
        "id": id_,
        "suite": suite,
        "toolset": "all",
        "tool_name_as_called": tool,
        "arguments": arguments,
        "recorded_outcome": outcome,
        "schema_mistakes": [{"kind": kind, "path": "", "detail": ""} for kind in mistakes],
        **more,
    }


GOOD = [
    a_row("fits", "forecast", {"city": "Łódź", "days": 2}),
    a_row("empty", "note", {}),
    a_row("self", "note", {"self": 1, "text": "named like a parameter of ours"}),
]
BAD = [
    a_row("wrong", "forecast", {"days": "2"}, "missing_required", "string_for_integer", "string_for_integer"),
    a_row("cut", "forecast", None, "malformed_json_arguments", arguments_raw='{"city": "Par'),
    a_row("none", "forecast", None, "missing_required"),
    a_row("noise", "forecast<|channel|>commentary", {"city": "Oslo"}, name_kind="leaked_control_token"),
    a_row("strange", "paint", {"city": "Oslo"}, name_kind="invented"),
]
BARE = [a_row("any", "anything", {"x": [1]}, suite="bare")]
FROM_BUGS: Any = {"suite": "field_reports"}
REPORTS: list[Any] = [
    a_row("reported", "forecast", {"city": 5}, "", kind="number_for_string", json_schema=STRICT, **FROM_BUGS),
    a_row("prefixed", "functions.bash", {}, name_kind="", kind="unknown_tool:added_prefix", **FROM_BUGS)
    | {"available_tools": ["bash"]},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, rows in (("tools", TOOLS), ("toolsets", TOOLSETS), ("calls_bare", BARE), ("field_reports", REPORTS)):
        write(tmp_path / f"{name}.jsonl", *rows)
    write(tmp_path / "calls_hand.jsonl", *GOOD, *BAD)
    return tmp_path


def write(path: Path, *rows: Any) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def run(data: Path, *options: str) -> tuple[int, dict[str, Any]]:
    file = data / "out.json"
    status = corpus.main(["--data", str(data), "--json", str(file), *options])
    return status, json.loads(file.read_text(encoding="utf-8"))


def test_each_call_is_counted_where_it_belongs(data: Path) -> None:
    """A call counts by suite, once by each kind of its mistakes, and by the mistake in its name."""
    _, found = run(data)
    counted = {
        title: {what: [tally["calls"], tally["verdicts"], tally["kinds"]] for what, tally in tallies.items()}
        for title, tallies in found["tables"].items()
    }
    wrong, repaired = [1, {"refused": 1}, {"validation": 1}], [1, {"repaired": 1}, {}]
    failures = {"validation": 2, "malformed_call": 1, "unknown_tool": 1}
    assert counted == {
        verdicts.SUITES: {"hand": [8, {"accepted": 3, "repaired": 1, "refused": 4}, failures]},
        verdicts.NO_SCHEMA: {"bare": [1, {"accepted": 1}, {}]},
        verdicts.MISTAKES: {
            verdicts.NO_MISTAKE: [3, {"accepted": 3}, {}],
            "missing_required": [2, {"refused": 2}, {"validation": 2}],
            "string_for_integer": wrong,
            "malformed_json_arguments": [1, {"refused": 1}, {"malformed_call": 1}],
        },
        verdicts.NAMES: {
            "leaked_control_token": repaired,
            "invented": [1, {"refused": 1}, {"unknown_tool": 1}],
        },
        verdicts.FIELD: {"number_for_string": repaired, "unknown_tool:added_prefix": repaired},
    }
    assert (found["calls"], found["valid"]) == (11, {"by the record": 3, "by the schema": 3})
    assert (found["changed"], found["exceptions"], found["disagreements"]) == ([], {}, {})
    assert found["calls_per_second"] > 0


def test_each_section_has_its_own_table_and_floors(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Repairs, names and second attempts are measured if they are recorded, and reported with the rest."""
    monkeypatch.setattr(measurement, "FLOORS", {verdicts.MISTAKES: {verdicts.NO_MISTAKE: (0, 0)}})
    write(data / "resolve_gold.jsonl", {"id": "g", "called": "pant", "gold": None, "basis": "", "offered": ["paint"]})
    pair = {"id": "p", "suite": "hand", "tool": "forecast", "failed_arguments": {}, "repaired_arguments": {"city": "A"}}
    write(data / "repair_pairs.jsonl", pair)
    status, found = run(data, "--check")
    printed = capsys.readouterr().out
    assert found["repairs"]["shares"]["no right value changed"] == [3, 3]
    assert found["repairs in field reports"]["repairable"]["by interpretation"] == {"number_as_text": ["reported"]}
    assert found["names"]["wrong"] == {"something suggested where nothing fits": ["g"]}
    assert found["second attempts"]["shares"]["told every argument that was changed"] == [1, 1]
    assert [each.partition(",")[0] for each in found["regressions"]] == ["names", "second attempts"]
    assert (status, "worse: names, something suggested where nothing fits: 100.0 %" in printed) == (1, True)


def test_only_figures_and_ids_are_printed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table for each way to count, then the totals, and nothing of what was in a call."""
    assert corpus.main(["--data", str(data)]) == 0
    printed = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert lines[0] == "calls accepted repaired refused % errors"
    assert lines[2] == "hand 8 3 1 4 50.0 validation 2, malformed_call 1, unknown_tool 1"
    assert "valid by the record, accepted unchanged: 3 of 3 (100.00 %)" in lines
    assert "largest of 11 arguments: 53 bytes, 2 levels, 2 names and items" in lines
    assert "exceptions: 0" in lines
    assert lines[-1].endswith("calls per second")
    assert not any(word in printed for word in ("Oslo", "Łódź", "Par"))


def test_record_and_schema_may_disagree(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls that only one of the two takes for valid are listed by id."""
    rows = [a_row("extra", "note", {"size": 1}, "extra_arg"), a_row("lost", "forecast", {"city": None})]
    write(data / "calls_hand.jsonl", *GOOD, *rows)
    status, found = run(data, "--check")
    assert found["disagreements"] == {"extra_arg": ["extra"], verdicts.NO_MISTAKE: ["lost"]}
    assert (status, found["changed"]) == (1, ["lost"])
    assert "record and schema disagree, extra_arg: extra\n" in capsys.readouterr().out


def test_a_share_below_its_floor_fails_the_check(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller share refused, or repaired, than before fails with ``--check``, and only with it."""
    figures: dict[str, dict[str, tuple[float, float]]] = {
        verdicts.MISTAKES: {verdicts.NO_MISTAKE: (0, 0)},
        verdicts.NAMES: {"leaked_control_token": (100, 100)},
        verdicts.FIELD: {"unknown_tool:added_prefix": (100, 100)},
    }
    monkeypatch.setattr(measurement, "FLOORS", figures)
    assert run(data, "--check")[0] == 0
    figures[verdicts.NAMES] |= {"invented": (100, 10)}
    figures[verdicts.MISTAKES] |= {verdicts.NO_MISTAKE: (0.1, 0)}
    status, found = run(data, "--check")
    assert (status, run(data)[0]) == (1, 0)
    assert found["regressions"] == [
        f"{verdicts.MISTAKES}, {verdicts.NO_MISTAKE}: 0.0 % repaired or refused, and it was 0.1 %",
        f"{verdicts.NAMES}, invented: 0.0 % repaired, and it was 10.0 %",
    ]


async def change(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
    return await call_next(attrs.evolve(call, params={**call.params, "days": 2.0}))


async def fail(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
    raise ZeroDivisionError


class Raising:
    registries = (ToolRegistry(),)

    async def report(self, call: Call) -> None:
        raise ZeroDivisionError

    async def __call__(self, call: Call) -> None: ...


def changing(tools: ToolRegistry) -> Pipeline:
    return standard(tools).after("validate", change)


def failing(tools: ToolRegistry) -> Pipeline:
    return standard(tools).after("validate", fail)


def raising(_: ToolRegistry) -> Any:
    return Raising()


@pytest.mark.parametrize(
    ("pipeline", "changed", "exceptions"),
    [
        pytest.param(changing, ["fits", "empty", "self"], set[str](), id="other arguments"),
        pytest.param(failing, ["fits", "empty", "self"], {"fits", "empty", "self", "any"}, id="a crash inside"),
        pytest.param(raising, ["fits", "empty", "self"], {"fits", "empty", "self", "any"}, id="an exception"),
    ],
)
def test_a_valid_call_must_pass_unchanged(
    data: Path, monkeypatch: pytest.MonkeyPatch, pipeline: Any, changed: list[str], exceptions: set[str]
) -> None:
    """A valid call that reaches its tool changed (2 is not 2.0), or not at all, fails the check."""
    monkeypatch.setattr(recordings, "standard", pipeline)
    write(data / "calls_hand.jsonl", *GOOD)
    write(data / "field_reports.jsonl")
    status, found = run(data, "--check")
    assert (status, found["changed"]) == (1, changed)
    assert found["exceptions"] == dict.fromkeys(exceptions, "ZeroDivisionError")


def test_the_recordings_reach_their_floors(capsys: pytest.CaptureFixture[str]) -> None:
    """With recordings, no figure is worse than it was; without them, one line says so."""
    status = corpus.main(["--check"])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert ("(100.00 %)" if recordings.has_calls(recordings.default_folder()) else "nothing was measured") in printed


@pytest.mark.parametrize("options", [["--check"], ["--data", "nowhere"]], ids=" ".join)
def test_without_data_nothing_is_measured(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkout without recordings is not a failure; one line says so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLCALL_CORPORA", str(tmp_path))
    assert corpus.main(options) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("There are no recorded calls in ")
    assert line.endswith(": nothing was measured.")


def test_files_of_another_format_are_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with other files is refused in one line, and not taken for an empty one."""
    write(data / "calls_hand.jsonl", {"id": "x"})
    with pytest.raises(SystemExit, match="2"):
        corpus.main(["--data", str(data)])
    assert "does not hold recorded calls: KeyError('suite')" in capsys.readouterr().err
