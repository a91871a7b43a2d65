"""Every text in every profile and verbosity: never empty, bounded, of one line a problem where that is asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success
from test_messages_cases import ERRORS, PROFILES, VERBOSITIES

from pipeline import (
    Crashed,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    NeedsUserInput,
    Problem,
    Repair,
    SetupError,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
    UnknownTool,
)
from pipeline.messages import PROFILES as KNOWN
from pipeline.messages import Profile, render
from pipeline.privacy import approved

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where it is"},
        "count": {"type": "integer", "minimum": 3, "description": "How many"},
        "mode": {"enum": ["read", "write"]},
    },
    "required": ["path", "mode"],
}
WRONG = InvalidParams(
    (
        Problem("pth", "additionalProperties", "path, count, mode", "a string", "path"),
        Problem("path", "required", "a string (Where it is)"),
        Problem("count", "type", "an integer", "a string"),
        Problem("mode", "enum", "'read' or 'write'", "a string", "read"),
    ),
    sent='{"pth": "hunter2"}',
    schema=SCHEMA,
)
TEXTS: dict[str, tuple[ToolError, str, str]] = {  # error, terse, full
    "parameters": (
        WRONG,
        (
            "Error: Unknown parameter: pth. Did you mean: path?\n"
            "Error: Missing required parameter: path\n"
            "Error: Invalid parameter value for count: must be an integer, not a string\n"
            "Error: Invalid parameter value for mode: must be 'read' or 'write'. Did you mean: read?"
        ),
        (
            "Error: Unknown parameter: pth\n"
            "The parameters are: path, count, mode. Did you mean: path?\n"
            "Error: Missing required parameter: path\n"
            "Please send path: a string (Where it is).\n"
            "Error: Invalid parameter value for count: must be an integer, not a string\n"
            "Please send count: an integer (How many).\n"
            "Error: Invalid parameter value for mode: must be 'read' or 'write'\n"
            "Did you mean: read?\n"
            'A valid example: {"path": "text", "mode": "read"}'
        ),
    ),
    "unknown tool": (
        UnknownTool("raed", ("read",), ("read", "write")),
        "Error: Tool 'raed' not found. Did you mean: read?",
        (
            "Error: Tool 'raed' not found.\nDid you mean: read?\nAvailable tools: read, write\n"
            "Please try again with one of the available tools."
        ),
    ),
    "time-out": (
        TimedOut(3, still_running=True, landed="no"),
        "Error: The tool did not finish within 3 seconds.",
        "Error: The tool did not finish within 3 seconds. It may still be running.",
    ),
    "time-out before it began": (
        TimedOut(3, landed="no"),
        "Error: The tool did not finish within 3 seconds.",
        "Error: The tool did not finish within 3 seconds. It had no effect.",
    ),
    "transient": (
        Transient(retry_after=5, landed="no"),
        "Error: The service is temporarily unavailable. Try again in 5 seconds.",
        "Error: The service is temporarily unavailable. Try again in 5 seconds. It had no effect.",
    ),
    "execution": (
        ExecutionFailed("Branch exists\n  on origin", FailureDetails("name", "Choose another name.")),
        "Error: Branch exists on origin. Choose another name.",
        "Error: Branch exists\n  on origin. Choose another name.\nThe parameter is name.",
    ),
    "question": (
        NeedsUserInput("To whom?", "to"),
        "Question: To whom?",
        "Question: To whom?\nThe parameter is to.",
    ),
    "unavailable": (Unavailable("a", "paused", 3), "This tool is not available", "This tool is not available"),
    "internal": (
        Crashed(),
        "An unexpected error occurred while executing this tool",
        "An unexpected error occurred while executing this tool",
    ),
}


@pytest.mark.parametrize(("error", "terse", "full"), [pytest.param(*row, id=name) for name, row in TEXTS.items()])
def test_each_verbosity_has_its_text(error: ToolError, terse: str, full: str) -> None:
    """Terse has no lines that help, full has all that is known and a valid example; normal stands between."""
    assert render(error, verbosity="terse") == terse
    assert render(error, verbosity="full") == full
    assert len(terse) <= len(render(error)) <= len(full)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_problem_is_a_line(profile: str) -> None:
    """Terse, each problem is one line in every profile, and so is any other error."""
    wanted = 1 if profile == "structured" else len(WRONG.problems)
    assert len(render(WRONG, profile=profile, verbosity="terse").splitlines()) == wanted
    for error, _, _ in TEXTS.values():
        if error is not WRONG:
            assert len(render(error, profile=profile, verbosity="terse").splitlines()) == 1


@given(
    ERRORS,
    st.none() | ERRORS,
    st.sampled_from(PROFILES),
    st.sampled_from(sorted(VERBOSITIES)),
    st.sampled_from([None, "", "gmail_send", "x" * 9_999, "\ud800", "web_search"]),
)
def test_every_text_is_bounded(
    error: ToolError, previous: ToolError | None, profile: str, verbosity: str, tool: str | None
) -> None:
    """Whatever the error holds: there is a text, within the budget, that can be sent, and without anything private."""
    text = render(error, profile=profile, previous=previous, verbosity=verbosity, tool=tool)
    assert text.strip()
    assert len(text) <= VERBOSITIES[verbosity]
    assert text.encode().decode() == text
    assert "hunter2" not in text
    if profile == "structured":
        told = json.loads(text)
        assert told["ok"] is False
        assert told["error"]
        assert told["errorType"] == error.error_type


@given(ERRORS)
def test_there_is_one_way_to_the_default_text(error: ToolError) -> None:
    """The short cut of the commonest case says what the long way says."""
    assert render(error, templates={}) == render(error, profile=KNOWN["default"]) == render(error)
    assert render(error, previous=Crashed()) == render(error)


REPAIRS: Any = st.lists(
    st.builds(
        Repair,
        st.text(max_size=5),
        st.sampled_from(["json_text", "number_text", "alias", "parameter_name", "lone_scalar", "other"]),
        st.none() | st.text(max_size=5) | st.integers() | st.floats() | st.binary(max_size=2),
        st.none() | st.text(max_size=5) | st.integers() | st.floats() | st.lists(st.integers(), max_size=2),
    ),
    max_size=8,
)


@given(ERRORS, REPAIRS, st.sampled_from(PROFILES), st.sampled_from(sorted(VERBOSITIES)))
def test_tell_says_what_say_says(error: ToolError, repairs: list[Repair], profile: str, verbosity: str) -> None:
    """Of a failure `tell` has the text of `say`, and perhaps one line on what was put right."""
    said = render(error, profile=profile, verbosity=verbosity)
    assert render(Failure(error), profile=profile, verbosity=verbosity) == said
    told = render(Failure(error), profile=profile, verbosity=verbosity, repairs=repairs)
    assert len(told) <= len(said) + 2_000
    if profile == "structured":
        assert {**json.loads(told), "note": ""} == {**json.loads(said), "note": ""}
    else:
        assert told.startswith(said)


def many(number: int, rule: str = "type") -> InvalidParams:
    return InvalidParams(tuple(Problem(f"a[{place}]", rule, "a number", "null") for place in range(number)))


@pytest.mark.parametrize(("verbosity", "told"), [("terse", 13), ("normal", 20), ("full", 50)])
def test_what_does_not_fit_is_counted(verbosity: str, told: int) -> None:
    """Of many problems as many as fit are told, to the end of a line, and the last line counts the others."""
    lines = render(many(300), verbosity=verbosity).splitlines()
    assert lines[-1] == f"Error: And {300 - told} more of these."
    assert lines[:-1] == [
        f"Error: Invalid parameter value for a[{place}]: must be a number, not null" for place in range(told)
    ]


def test_the_budget_counts_and_not_only_the_number() -> None:
    """Few problems of many words are cut at a line's end, too."""
    problems = tuple(Problem(f"p{place}", "required", approved("word " * 150)) for place in range(20))
    lines = render(InvalidParams(problems)).splitlines()
    assert lines[-1] == "Error: And 11 more of these."
    assert all(line.startswith(("Error: Missing required", "Please send")) for line in lines[:-1])
    assert lines[-2].endswith(" word.")


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_counts_what_it_leaves_out(profile: str) -> None:
    """No profile tells of many problems as if they were few."""
    text = render(many(300, "pattern"), profile=profile, verbosity="terse")
    assert "more of these." in text
    told = text.count("a[") // (2 if profile == "structured" else 1)
    assert f"nd {300 - told} more" in text or profile == "structured"


def test_no_example_where_none_fits() -> None:
    """An example that is too long, or for arguments whose schema is not known, is left out."""
    assert "example" not in render(InvalidParams(WRONG.problems), verbosity="full")
    long = InvalidParams(WRONG.problems, schema={**SCHEMA, "properties": {"path": {"const": "x" * 9_000}}})
    assert "example" not in render(long, verbosity="full")


UNKNOWN = [
    pytest.param({"profile": "agentopea"}, "'agentopea'; there are default, llmproc, rfc015", id="profile"),
    pytest.param({"profile": ["default"]}, "no profile", id="no name of a profile"),
    pytest.param({"verbosity": "loud"}, "'loud'; there are terse, normal, full", id="verbosity"),
    pytest.param({"verbosity": 3}, "no verbosity", id="no name of a verbosity"),
    pytest.param({"templates": {"validaton": "x"}}, "'validaton' is for no kind of error", id="templates"),
]


@pytest.mark.parametrize(("options", "text"), UNKNOWN)
def test_an_unknown_name_is_refused(options: Any, text: str) -> None:
    """A profile, a verbosity or a template that does not exist is a mistake of the programmer, also with a success."""
    with pytest.raises(SetupError, match=text):
        render(Crashed(), **options)
    with pytest.raises(SetupError, match=text):
        render(Success(1), **options)


def test_the_six_are_known_by_name() -> None:
    """`PROFILES` is a mapping of the six names."""
    assert tuple(KNOWN) == PROFILES
    assert len(KNOWN) == 6
    assert repr(KNOWN) == f"PROFILES({', '.join(PROFILES)})"
    assert all(isinstance(each, Profile) and each.name == name for name, each in KNOWN.items())
