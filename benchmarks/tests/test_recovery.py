"""benchmarks.corpus.recovery: what the text-only model makes of our texts, and what is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.corpus import recovery
from benchmarks.corpus.recordings import OfferedTool, RecordedCall, build_pipeline, default_folder, has_calls
from benchmarks.corpus.recovery import BASELINE, Retried, ask_again, compare, lines, main, outdated, regressions, shares
from benchmarks.corpus.second_attempts import SecondAttempt
from benchmarks.corpus.text_only_model import TextOnlyModel, make_value, recover_object
from toolcall_pipeline import Call, is_failure, render
from toolcall_pipeline.dialogue.records import Record, Turn

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where; at least 3 of them"},
        "days": {"type": "integer", "minimum": 3},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "object", "properties": {"hour": {"type": "integer"}}, "required": ["hour"]},
        "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
    },
    "required": ["city"],
    "additionalProperties": False,
}
FILES = ("toolsets", "tools", "calls_hand")
OFFER = {"forecast": OfferedTool.make("forecast", SCHEMA)}
PIPELINE = build_pipeline(OFFER)


async def correct(call: Call) -> Call | str:
    outcome = await PIPELINE(call)
    assert is_failure(outcome)
    return TextOnlyModel().correct(call, render(outcome.failure()))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param({"days": 4}, {"days": 4, "city": "text"}, id="missing"),
        pytest.param({"city": None}, {"city": "text"}, id="null is missing"),
        pytest.param({"city": "Oslo", "at": {"hour": None}}, {"city": "Oslo", "at": {"hour": 1}}, id="null inside"),
        pytest.param({"citty": None}, {"city": "text"}, id="a similar name keeps no null"),
        pytest.param({"city": "Oslo", "days": "soon"}, {"city": "Oslo", "days": 1}, id="another type"),
        pytest.param({"city": "Oslo", "days": 2}, {"city": "Oslo", "days": 3}, id="a limit"),
        pytest.param({"city": "Oslo", "unit": "kelvin"}, {"city": "Oslo", "unit": "celsius"}, id="an option"),
        pytest.param(
            {"city": "Oslo", "unit": "celsiuss"}, {"city": "Oslo", "unit": "celsius"}, id="the suggested option"
        ),
        pytest.param({"city": "Oslo", "colour": "red"}, {"city": "Oslo"}, id="an undeclared argument is left out"),
        pytest.param({"citty": "Oslo"}, {"city": "Oslo"}, id="a similar name keeps its value"),
        pytest.param({"city": "Oslo", "at": {}}, {"city": "Oslo", "at": {"hour": 1}}, id="inside an object"),
        pytest.param({"city": "Oslo", "tags": ["a", [1]]}, {"city": "Oslo", "tags": ["a", "text"]}, id="an item"),
        pytest.param('{"days": 4}', {"days": 4, "city": "text"}, id="JSON text"),
        pytest.param('{"city": "Oslo"} and so on', {"city": "Oslo"}, id="text behind the JSON"),
        pytest.param("I should call it now.", "the text holds no JSON object", id="no JSON"),
        pytest.param({"city": "Oslo", "code": "x"}, "no value fits the words", id="a pattern"),
    ],
)
async def test_the_model_changes_what_the_text_names(sent: Any, expected: Any) -> None:
    """It changes exactly those arguments, to the first value that fits the words; the rest stays as it was sent."""
    again = await correct(Call("forecast", sent, "1"))
    assert (again if isinstance(again, str) else again.arguments) == expected


@pytest.mark.parametrize(
    ("name", "sent", "expected"),
    [
        ("forcast", {"city": "Oslo"}, "forecast"),
        ("paint", {"city": "Oslo"}, "forecast"),  # which alone takes them
        ("paint", {"colour": "red"}, "no tool is suggested"),
    ],
)
async def test_the_model_takes_the_first_suggested_name(name: str, sent: Any, expected: str) -> None:
    """It gives up if no name is suggested."""
    again = await correct(Call(name, sent))
    assert (again if isinstance(again, str) else again.name) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("'it' or 'that'", "it"),
        ("\"it's\" or 'that'", "it's"),
        ("an integer or null", 1),
        ("a number (between 3 and 5).", 1),
        ("at least -4, not -9", -4),
        ("greater than 3", 4),
        ("less than 3", 2),
        ("at least 3 characters long, not 1", "xxx"),
        ("at most 0 characters long", ""),
        ("an array of at least 2 items", ["text", "text"]),
        ("an array of at most 2 items", []),
        ("an object", {}),
        ("null", None),
        ("a boolean.", True),
    ],
)
def test_a_value_is_made_of_the_words_alone(words: str, expected: object) -> None:
    """A new value follows from the words of the text, and from nothing else."""
    assert make_value(words) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'a': None}", {"a": None}),
        ('{"a": 1, // one\n "b": 2,}', {"a": 1, "b": 2}),
        ('{"a": "x\ny"}', {"a": "x\ny"}),
        ('{"a": 6*7}', None),
        ('{"a": "cut', None),
        ("[1]", None),
        (None, None),
    ],
)
def test_only_a_complete_object_is_recovered(text: object, expected: object) -> None:
    """Nothing is completed or computed: a text that was cut off holds no object."""
    assert recover_object(text) == expected


def a_record(call: Call, *mistakes: str, name_mistake: str | None = None) -> RecordedCall:
    return RecordedCall(
        call, "hand", PIPELINE, mistakes, name_mistake, schema=True, valid_by_schema=not (mistakes or name_mistake)
    )


async def test_refused_calls_are_counted() -> None:
    """Refused calls count by error and mistake, with the attempt that succeeded or the reason why none did."""
    retried = await ask_again(
        [
            a_record(Call("forecast", {"city": "Oslo"})),
            a_record(Call("forecast", {"city": "Oslo", "days": "4"}), "repaired outright"),
            a_record(Call("forecast", {}), "missing_required"),
            a_record(Call("forcast", {}), name_mistake="typo"),
            a_record(Call("paint", {}), name_mistake="invented"),
            a_record(Call("forecast", {"city": "Oslo", "days": "soon"}), "nonnumeric"),
        ]
    )
    assert [(each.kind, each.succeeded_at, *each.mistakes) for each in retried] == [
        ("validation", 2, "missing_required"),
        ("unknown_tool", 3, "name: typo"),
        ("unknown_tool", None, "name: invented"),
        ("validation", 3, "nonnumeric"),
    ]
    assert shares(retried) == (25.0, 75.0)
    printed = "\n".join(lines(retried))
    assert "  unknown_tool: no tool is suggested: 1" in printed
    assert "a value that just has the right form: 3" in printed
    assert "  2: 1 of 3 (33.3 %)\n  3: 2 of 2 (100.0 %)\n" in printed
    assert [line.partition(" ")[0] for line in regressions(retried)] == ["validation:", "unknown_tool:"]


async def test_a_constant_text_is_a_baseline() -> None:
    """The same failures are told as "Error": from that alone nothing is sent again, whatever was wrong."""
    wrong = [
        a_record(Call("forecast", {}), "missing_required"),
        a_record(Call("forcast", {"city": "Oslo"}), name_mistake="typo"),
        a_record(Call("forecast", '{"city": "Oslo"} and so on'), "malformed_json_arguments"),
        a_record(Call("forecast", "I should call it now."), "malformed_json_arguments"),
    ]
    ours, other = await ask_again(wrong), await ask_again(wrong, BASELINE)
    assert [(each.kind, each.succeeded_at) for each in ours] == [
        ("validation", 2),
        ("unknown_tool", 2),
        ("malformed_call", 2),
        ("malformed_call", None),
    ]
    assert [(each.kind, each.succeeded_at, each.stuck) for each in other] == [
        (each.kind, None, "no value fits the words") for each in ours
    ]
    pairs = [
        SecondAttempt("a", "Error: Missing required parameter: city", {}, {"city": "Oslo"}),
        SecondAttempt("b", "Error: Missing required parameter: city", {"days": 3}, {"city": "Oslo", "days": 4}),
        SecondAttempt("c", None, {"days": "3"}, {"days": 3}),  # it is repaired outright, so nothing is told
    ]
    printed = [" ".join(line.split()) for line in compare(ours, other, pairs)]
    assert "names what to change 3 of 4 = 75.0 [30.1, 95.4] 0 of 4 = 0.0 [0.0, 49.0]" in printed
    assert "mended from the text alone, at 2 3 of 4 = 75.0 [30.1, 95.4] 0 of 4 = 0.0 [0.0, 49.0]" in printed
    assert printed.count("malformed_call 1 of 2 = 50.0 [9.5, 90.5] 0 of 2 = 0.0 [0.0, 65.8]") == 3
    assert "names all that its model changed next 1 of 2 = 50.0 [9.5, 90.5] 0 of 2 = 0.0 [0.0, 65.8]" in printed
    assert "names what to change of 0 of 0" in [" ".join(line.split()) for line in compare([], [], [])]


def test_without_calls_nothing_is_worse() -> None:
    """No calls have no regressions."""
    assert (list(regressions([])), shares([])) == ([], (0.0, 0.0))
    assert list(lines([]))


def test_check_fails_below_a_floor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A share below its floor fails with ``--check``, and only with it."""
    record = Record(
        "t", 0.0, success=False, input_params={}, error=None, requires_retry=True, attempt=1, kind="validation"
    )
    retried = [Retried(a_record(Call("t"), "x"), Turn((), (), (), (record,), 1))]

    async def asked(*_: object) -> list[Retried]:
        return retried

    monkeypatch.setattr(recovery, "ask_again", asked)
    for name in FILES:
        (tmp_path / f"{name}.jsonl").touch()
    assert main(["--data", str(tmp_path)]) == 0
    assert main(["--data", str(tmp_path), "--check"]) == 1


def test_the_figures_of_the_guide_are_those_that_are_printed() -> None:
    """A figure of the guide that is not printed any more is told; the lines that are left out are not missed."""
    guide = "Text.\n\n```\n$ make recovery\nby error\n...\n  2: 1 of 3\n```\n\n```\n$ make other\nmore\n```\n"
    assert list(outdated(guide, ["by error", "  unknown", "  2: 1 of 3"])) == []
    assert list(outdated(guide, ["by error", "  2: 2 of 3"])) == ["  2: 1 of 3"]


def test_the_recordings_reach_their_floors(capsys: pytest.CaptureFixture[str]) -> None:
    """With recordings, no figure is worse than it was, and the guide has the measured ones."""
    status = main(["--check"])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert has_calls(default_folder()) or "nothing was measured" in printed


def test_without_data_nothing_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkout without recordings is not a failure."""
    assert main(["--data", str(tmp_path), "--check"]) == 0
    assert capsys.readouterr().out.endswith(": nothing was measured.\n")


def test_files_of_another_format_are_refused(tmp_path: Path) -> None:
    """A folder with other files is a wrong option."""
    for name in FILES:
        (tmp_path / f"{name}.jsonl").write_text("{}\n")
    with pytest.raises(SystemExit):
        main(["--data", str(tmp_path)])
