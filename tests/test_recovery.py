"""benchmarks.recovery: what its model makes of our texts, and what it counts on a few calls written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import recovery
from benchmarks.literal_model import LiteralModel, known_of, value_of
from benchmarks.recorded import Offered, Recorded, pipeline_of
from benchmarks.recovery import Tried, ask_again, fallen, lines, main, shares
from pipeline import Call, is_failure, render
from pipeline.dialogue.records import Record, Turn

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
OFFER = {"forecast": Offered.of("forecast", SCHEMA)}
PIPELINE = pipeline_of(OFFER)


async def mended(call: Call) -> Call | str:
    outcome = await PIPELINE(call)
    assert is_failure(outcome)
    return LiteralModel().mended(call, render(outcome.failure()))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param({"days": 4}, {"days": 4, "city": "text"}, id="missing"),
        pytest.param({"city": "Oslo", "days": "soon"}, {"city": "Oslo", "days": 1}, id="another type"),
        pytest.param({"city": "Oslo", "days": 2}, {"city": "Oslo", "days": 3}, id="a limit"),
        pytest.param({"city": "Oslo", "unit": "kelvin"}, {"city": "Oslo", "unit": "celsius"}, id="an option"),
        pytest.param({"city": "Oslo", "unit": "celsiuss"}, {"city": "Oslo", "unit": "celsius"}, id="the one meant"),
        pytest.param({"city": "Oslo", "colour": "red"}, {"city": "Oslo"}, id="a stranger is left out"),
        pytest.param({"citty": "Oslo"}, {"city": "Oslo"}, id="a name that is near keeps its value"),
        pytest.param({"city": "Oslo", "at": {}}, {"city": "Oslo", "at": {"hour": 1}}, id="inside of another"),
        pytest.param({"city": "Oslo", "tags": ["a", [1]]}, {"city": "Oslo", "tags": ["a", "text"]}, id="an item"),
        pytest.param('{"days": 4}', {"days": 4, "city": "text"}, id="JSON text"),
        pytest.param('{"city": "Oslo"} and so on', {"city": "Oslo"}, id="something behind the JSON"),
        pytest.param("I should call it now.", "no JSON can be made of it", id="no JSON"),
        pytest.param({"city": "Oslo", "code": "x"}, "no value fits the words", id="a pattern"),
    ],
)
async def test_the_model_changes_what_the_text_names(sent: Any, expected: Any) -> None:
    """Exactly that, to the first value that fits its words; the rest stays as it was sent."""
    again = await mended(Call("forecast", sent, "1"))
    assert (again if isinstance(again, str) else again.arguments) == expected


@pytest.mark.parametrize(("name", "expected"), [("forcast", "forecast"), ("paint", "no tool is suggested")])
async def test_the_model_takes_the_first_name_that_is_suggested(name: str, expected: str) -> None:
    """And gives up where none is."""
    again = await mended(Call(name, {"city": "Oslo"}))
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
def test_the_words_that_are_known(words: str, expected: object) -> None:
    """A value is made of the words alone."""
    assert value_of(words) == expected


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
def test_what_a_malformed_text_surely_holds(text: object, expected: object) -> None:
    """Nothing is added to it: what was cut off, or is to be computed, is not known."""
    assert known_of(text) == expected


def a_record(call: Call, *mistakes: str, name_kind: str | None = None) -> Recorded:
    return Recorded(
        call, "hand", PIPELINE, mistakes, name_kind, schema=True, valid_by_schema=not (mistakes or name_kind)
    )


async def test_what_is_counted() -> None:
    """Refused calls only: by their error and mistake, the attempt that succeeded, and why none did."""
    tried = await ask_again(
        [
            a_record(Call("forecast", {"city": "Oslo"})),
            a_record(Call("forecast", {"city": "Oslo", "days": "4"}), "repaired outright"),
            a_record(Call("forecast", {}), "missing_required"),
            a_record(Call("forcast", {}), name_kind="typo"),
            a_record(Call("paint", {}), name_kind="invented"),
            a_record(Call("forecast", {"city": "Oslo", "days": "soon"}), "nonnumeric"),
        ]
    )
    assert [(each.kind, each.at, *each.mistakes) for each in tried] == [
        ("validation", 2, "missing_required"),
        ("unknown_tool", 3, "name: typo"),
        ("unknown_tool", None, "name: invented"),
        ("validation", 3, "nonnumeric"),
    ]
    assert shares(tried) == (25.0, 75.0)
    printed = "\n".join(lines(tried))
    assert "  unknown_tool: no tool is suggested: 1" in printed
    assert "a value that just has the right form: 3" in printed
    assert "  2: 1 of 3\n  3: 2 of 2\n" in printed
    assert [line.partition(" ")[0] for line in fallen(tried)] == ["validation:", "unknown_tool:"]


def test_nothing_to_count() -> None:
    """Of no calls nothing has fallen."""
    assert (list(fallen([])), shares([])) == ([], (0.0, 0.0))
    assert list(lines([]))


def test_check_fails_where_less_was_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With --check, and only with it."""
    record = Record(
        "t", 0.0, success=False, input_params={}, error=None, requires_retry=True, attempt=1, kind="validation"
    )
    tried = [Tried(a_record(Call("t"), "x"), Turn((), (), (), (record,), 1))]

    async def asked(_: object) -> list[Tried]:
        return tried

    monkeypatch.setattr(recovery, "ask_again", asked)
    for name in FILES:
        (tmp_path / f"{name}.jsonl").touch()
    assert main(["--data", str(tmp_path)]) == 0
    assert main(["--data", str(tmp_path), "--check"]) == 1


def test_without_data_nothing_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And that is no failure."""
    assert main(["--data", str(tmp_path), "--check"]) == 0
    assert capsys.readouterr().out.endswith(": nothing was measured.\n")


def test_data_of_another_shape_is_told(tmp_path: Path) -> None:
    """It is the caller's mistake."""
    for name in FILES:
        (tmp_path / f"{name}.jsonl").write_text("{}\n")
    with pytest.raises(SystemExit):
        main(["--data", str(tmp_path)])
