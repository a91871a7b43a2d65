"""Verbosity: each text keeps its budget in every profile, and a terse one has one line for each problem."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from returns.result import Failure, Success

from error_cases import ERRORS, PROFILES, VERBOSITIES
from toolcall_pipeline import (
    Crashed,
    Denied,
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
from toolcall_pipeline.messages import Profile, render
from toolcall_pipeline.messages.profiles import PROFILES as KNOWN
from toolcall_pipeline.privacy import approved

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
            "Error: Invalid parameter value for count: must be an integer, not a string\n"
            "Please send count: an integer (How many).\n"
            "Error: Invalid parameter value for mode: must be 'read' or 'write'\n"
            "Did you mean: read?\n"
            "Fix the errors and try again, with arguments of this form: "
            '{"path": <string: Where it is>, "mode": <\'read\' or \'write\'>, "count": <optional integer: How many>}'
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
    """A terse text has no lines of help, and a full one has all details and the form of valid arguments."""
    assert render(error, verbosity="terse") == terse
    assert render(error, verbosity="full") == full
    assert len(terse) <= len(render(error)) <= len(full)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_terse_text_has_one_line_for_each_problem(profile: str) -> None:
    """In a terse text of any profile each problem is one line, and so is any other error."""
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
    """For any error the text is not empty, within the budget, can be encoded, and holds nothing private."""
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


@example(Denied("", "ab " * 20_000))
@example(ExecutionFailed("\n" * 20_000, FailureDetails(suggestion="0")))
@given(ERRORS)
def test_the_short_cut_gives_the_same_text(error: ToolError) -> None:
    """The short cut for the commonest options gives the same text as the long way."""
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
def test_repairs_add_one_note(error: ToolError, repairs: list[Repair], profile: str, verbosity: str) -> None:
    """A failure has the text of its error, followed by at most one line about repairs."""
    text = render(error, profile=profile, verbosity=verbosity)
    assert render(Failure(error), profile=profile, verbosity=verbosity) == text
    noted = render(Failure(error), profile=profile, verbosity=verbosity, repairs=repairs)
    assert len(noted) <= len(text) + 2_000
    if profile == "structured":
        assert {**json.loads(noted), "note": ""} == {**json.loads(text), "note": ""}
    else:
        assert noted.startswith(text)


def many(number: int, rule: str = "type") -> InvalidParams:
    return InvalidParams(tuple(Problem(f"a[{place}]", rule, "a number", "null") for place in range(number)))


@pytest.mark.parametrize(("verbosity", "told"), [("terse", 13), ("normal", 20), ("full", 50)])
def test_problems_that_do_not_fit_are_counted(verbosity: str, told: int) -> None:
    """A text has as many whole problems as fit, and its last line counts the others."""
    lines = render(many(300), verbosity=verbosity).splitlines()
    assert lines[-1] == f"Error: And {300 - told} more of these."
    assert lines[:-1] == [
        f"Error: Invalid parameter value for a[{place}]: must be a number, not null" for place in range(told)
    ]


def test_a_few_long_problems_are_cut_at_a_line() -> None:
    """The budget counts characters, not only problems, and cuts at the end of a line."""
    problems = tuple(Problem(f"p{place}", "required", approved("word " * 150)) for place in range(20))
    head, *lines, last = render(InvalidParams(problems)).splitlines()
    assert head == f"Error: Missing required parameters: {', '.join(f'p{place}' for place in range(20))}"
    assert [line.partition(":")[0] for line in lines] == [f"- p{place}" for place in range(5)]
    assert all(line.endswith(" word.") for line in lines)
    assert last == "Fix the errors and try again."
    wrong = tuple(attrs.evolve(each, rule="type") for each in problems)
    *lines, last = render(InvalidParams(wrong)).splitlines()
    assert last == "Error: And 11 more of these."
    assert all(line.startswith("Error: Invalid parameter value") and line.endswith(" word") for line in lines)


@pytest.mark.parametrize("verbosity", VERBOSITIES)
def test_names_that_do_not_fit_are_counted(verbosity: str) -> None:
    """Of many missing parameters with long names some are named and the others are counted."""
    problems = tuple(Problem(f"{place:03}" * 30, "required", approved("a string")) for place in range(20))
    text = render(InvalidParams(problems), verbosity=verbosity)
    head = text.splitlines()[0]
    named = head.count(", ") + 1
    assert len(text) <= VERBOSITIES[verbosity]
    assert head.endswith(f" and {20 - named} more") == (named < 20)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_counts_what_it_leaves_out(profile: str) -> None:
    """In every profile the text says how many problems it leaves out."""
    text = render(many(300, "pattern"), profile=profile, verbosity="terse")
    assert "more of these." in text
    told = text.count("a[") // (2 if profile == "structured" else 1)
    assert f"nd {300 - told} more" in text or profile == "structured"


def test_no_example_is_better_than_a_bad_one() -> None:
    """There is no example if the schema is not known, or if the example would be too long."""
    assert "example" not in render(InvalidParams(WRONG.problems), verbosity="full")
    long = InvalidParams(WRONG.problems, schema={**SCHEMA, "properties": {"path": {"const": "x" * 9_000}}})
    assert "example" not in render(long, verbosity="full")


UNKNOWN = [
    pytest.param(
        {"profile": "agentopea"}, "unknown profile 'agentopea'; known: default, llmproc, rfc015", id="profile"
    ),
    pytest.param({"profile": ["default"]}, "unknown profile", id="a profile of another type"),
    pytest.param({"verbosity": "loud"}, "unknown verbosity 'loud'; known: terse, normal, full", id="verbosity"),
    pytest.param({"verbosity": 3}, "unknown verbosity", id="a verbosity of another type"),
    pytest.param({"templates": {"validaton": "x"}}, "'validaton': its key names no kind of error", id="templates"),
]


@pytest.mark.parametrize(("options", "text"), UNKNOWN)
def test_an_unknown_name_is_refused(options: Any, text: str) -> None:
    """An unknown profile, verbosity or template raises SetupError, even with a success."""
    with pytest.raises(SetupError, match=text):
        render(Crashed(), **options)
    with pytest.raises(SetupError, match=text):
        render(Success(1), **options)


def test_six_profiles_are_known_by_name() -> None:
    """`PROFILES` maps each of the six names to the profile of that name."""
    assert tuple(KNOWN) == PROFILES
    assert all(isinstance(each, Profile) and each.name == name for name, each in KNOWN.items())
