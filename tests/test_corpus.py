"""benchmarks.corpus: what it counts on a few calls written by hand, and on the recorded ones where they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from benchmarks import corpus, judged, recorded
from middlewares import standard
from pipeline import Call, Handler, Outcome, Pipeline, ToolRegistry, ValidCall

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
    """By suite, by each kind of its mistakes once, by the kind of its unknown name; without a schema apart."""
    _, told = run(data)
    counted = {
        title: {what: [tally["calls"], tally["verdicts"], tally["kinds"]] for what, tally in tallies.items()}
        for title, tallies in told["groups"].items()
    }
    wrong, mended = [1, {"refused": 1}, {"validation": 1}], [1, {"repaired": 1}, {}]
    failures = {"validation": 2, "malformed_call": 1, "unknown_tool": 1}
    assert counted == {
        judged.SUITES: {"hand": [8, {"accepted": 3, "repaired": 1, "refused": 4}, failures]},
        judged.APART: {"bare": [1, {"accepted": 1}, {}]},
        judged.MISTAKES: {
            judged.NO_MISTAKE: [3, {"accepted": 3}, {}],
            "missing_required": [2, {"refused": 2}, {"validation": 2}],
            "string_for_integer": wrong,
            "malformed_json_arguments": [1, {"refused": 1}, {"malformed_call": 1}],
        },
        judged.NAMES: {
            "leaked_control_token": mended,
            "invented": [1, {"refused": 1}, {"unknown_tool": 1}],
        },
        judged.FIELD: {"number_for_string": mended, "unknown_tool:added_prefix": mended},
    }
    assert (told["calls"], told["valid"]) == (11, {"by the record": 3, "by the schema": 3})
    assert (told["changed"], told["exceptions"], told["disagreements"]) == ([], {}, {})
    assert told["calls_per_second"] > 0


def test_each_part_has_its_own_table_and_floors(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong arguments, names and second attempts are measured where they are recorded, and told with the rest."""
    monkeypatch.setattr(corpus, "REACHED", {judged.MISTAKES: {judged.NO_MISTAKE: (0, 0)}})
    write(data / "resolve_gold.jsonl", {"id": "g", "called": "pant", "gold": None, "basis": "", "offered": ["paint"]})
    pair = {"id": "p", "suite": "hand", "tool": "forecast", "failed_arguments": {}, "repaired_arguments": {"city": "A"}}
    write(data / "repair_pairs.jsonl", pair)
    status, told = run(data, "--check")
    printed = capsys.readouterr().out
    assert told["repairs"]["shares"]["no right value changed"] == [3, 3]
    assert told["repairs in field reports"]["repairable"]["by reading"] == {"number_as_text": ["reported"]}
    assert told["names"]["wrong"] == {"something suggested where nothing fits": ["g"]}
    assert told["second attempts"]["shares"]["told every argument that was changed"] == [1, 1]
    assert [each.partition(",")[0] for each in told["fallen"]] == ["names", "second attempts"]
    assert (status, "fallen: names, something suggested where nothing fits: 100.0 %" in printed) == (1, True)


def test_what_is_printed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table for each way to count, then the totals, and nothing of what was in a call."""
    assert corpus.main(["--data", str(data)]) == 0
    printed = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert lines[0] == "calls accepted repaired refused % of which"
    assert lines[2] == "hand 8 3 1 4 50.0 validation 2, malformed_call 1, unknown_tool 1"
    assert "calls that are valid by the record, accepted unchanged: 3 of 3 (100.00 %)" in lines
    assert "exceptions: 0" in lines
    assert lines[-1].endswith("calls per second")
    assert not any(word in printed for word in ("Oslo", "Łódź", "Par"))


def test_record_and_schema_may_disagree(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What one of them calls valid and the other does not is told, by id."""
    rows = [a_row("extra", "note", {"size": 1}, "extra_arg"), a_row("lost", "forecast", {"city": None})]
    write(data / "calls_hand.jsonl", *GOOD, *rows)
    status, told = run(data, "--check")
    assert told["disagreements"] == {"extra_arg": ["extra"], judged.NO_MISTAKE: ["lost"]}
    assert (status, told["changed"]) == (1, ["lost"])
    assert "record and schema disagree, extra_arg: extra\n" in capsys.readouterr().out


def test_what_was_reached_is_held(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller share refused, or repaired, than before fails the check, and nothing but the check."""
    figures: dict[str, dict[str, tuple[float, float]]] = {
        judged.MISTAKES: {judged.NO_MISTAKE: (0, 0)},
        judged.NAMES: {"leaked_control_token": (100, 100)},
        judged.FIELD: {"unknown_tool:added_prefix": (100, 100)},
    }
    monkeypatch.setattr(corpus, "REACHED", figures)
    assert run(data, "--check")[0] == 0
    figures[judged.NAMES] |= {"invented": (100, 10)}
    figures[judged.MISTAKES] |= {judged.NO_MISTAKE: (0.1, 0)}
    status, told = run(data, "--check")
    assert (status, run(data)[0]) == (1, 0)
    assert told["fallen"] == [
        f"{judged.MISTAKES}, {judged.NO_MISTAKE}: 0.0 % repaired or refused, and it was 0.1 %",
        f"{judged.NAMES}, invented: 0.0 % repaired, and it was 10.0 %",
    ]


async def mend(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
    return await call_next(attrs.evolve(call, params={**call.params, "days": 2.0}))


async def fail(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
    raise ZeroDivisionError


class Raising:
    async def report(self, call: Call) -> None:
        raise ZeroDivisionError

    async def __call__(self, call: Call) -> None: ...


def mending(tools: ToolRegistry) -> Pipeline:
    return standard(tools).after("validate", mend)


def failing(tools: ToolRegistry) -> Pipeline:
    return standard(tools).after("validate", fail)


def raising(_: ToolRegistry) -> Any:
    return Raising()


@pytest.mark.parametrize(
    ("pipeline", "changed", "exceptions"),
    [
        pytest.param(mending, ["fits", "empty", "self"], set[str](), id="other arguments"),
        pytest.param(failing, ["fits", "empty", "self"], {"fits", "empty", "self", "any"}, id="a crash inside"),
        pytest.param(raising, ["fits", "empty", "self"], {"fits", "empty", "self", "any"}, id="an exception"),
    ],
)
def test_a_valid_call_must_pass_untouched(
    data: Path, monkeypatch: pytest.MonkeyPatch, pipeline: Any, changed: list[str], exceptions: set[str]
) -> None:
    """A valid call that reaches its tool otherwise than it was sent (2 is not 2.0), or not at all, fails the check."""
    monkeypatch.setattr(recorded, "standard", pipeline)
    write(data / "calls_hand.jsonl", *GOOD)
    write(data / "field_reports.jsonl")
    status, told = run(data, "--check")
    assert (status, told["changed"]) == (1, changed)
    assert told["exceptions"] == dict.fromkeys(exceptions, "ZeroDivisionError")


def test_the_recorded_calls_reach_what_they_reached(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the recorded calls are, all of them hold; where they are not, that is said."""
    status = corpus.main(["--check"])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert ("(100.00 %)" if recorded.is_data(recorded.default_data()) else "nothing was measured") in printed


@pytest.mark.parametrize("options", [["--check"], ["--data", "nowhere"]], ids=" ".join)
def test_without_data_nothing_is_measured(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkout without the data is as good as any: one line, and no failure."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLCALL_CORPORA", str(tmp_path))
    assert corpus.main(options) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("There are no recorded calls in ")
    assert line.endswith(": nothing was measured.")


def test_other_data_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Data of another shape is an error in a line, and not taken for none."""
    write(data / "calls_hand.jsonl", {"id": "x"})
    with pytest.raises(SystemExit, match="2"):
        corpus.main(["--data", str(data)])
    assert "is not as recorded calls are: KeyError('suite')" in capsys.readouterr().err
