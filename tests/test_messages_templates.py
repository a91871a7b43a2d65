"""Templates: found by what an error is, the most specific first; filled with what is known, never read again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_messages_cases import ERRORS

from pipeline import (
    Crashed,
    Denied,
    ExecutionFailed,
    InvalidParams,
    MalformedCall,
    NeedsSetup,
    NeedsUserInput,
    NotExecuted,
    OutcomeUnknown,
    Problem,
    SetupError,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
    UnknownTool,
)
from pipeline.messages import render
from pipeline.privacy import approved

MISSING = InvalidParams((Problem("to", "required", "a string"),))
NESTED = InvalidParams((Problem("to[1].name", "type", "a string", "null"),))
SET_UP = NeedsSetup("Gmail")
# From the least specific to the most specific one; the tool is gmail_send.
OF_PARAMETERS = (
    "validation",
    "validation.required",
    "validation:to",
    "validation.required:to",
    "g*:validation",
    "gmail_*:validation",
    "gmail_*:validation.required",
    "gmail_*:validation:to",
    "gmail_*:validation.required:to",
    "gmail_send:validation",
    "gmail_send:validation.required",
    "gmail_send:validation:to",
    "gmail_send:validation.required:to",
)
OF_SERVICES = (
    "configuration",
    "gmail_*:configuration",
    "gmail_*:provider=G*:configuration",
    "provider=Gmail:configuration",
    "gmail_*:provider=gmail:configuration",
    "gmail_send:configuration",
    "gmail_send:provider=Gmail:configuration",
)


@pytest.mark.parametrize(
    ("keys", "error"), [(OF_PARAMETERS, MISSING), (OF_SERVICES, SET_UP)], ids=["validation", "set-up"]
)
def test_the_most_specific_template_wins(keys: tuple[str, ...], error: ToolError) -> None:
    """Tool, then service, then family, then parameter, then rule; in whatever order they are given."""
    for number in range(1, len(keys) + 1):
        given_ = {key: f"by {key}" for key in reversed(keys[:number])}
        assert render(error, templates=given_, tool="gmail_send").splitlines()[0] == f"by {keys[number - 1]}"


NOT_ABOUT_IT = (
    "validation.type",
    "validation:from",
    "validation.required:t",
    "gmail_read:validation",
    "smtp_*:validation",
    "provider=Gmail:validation",
    "configuration",
)


@pytest.mark.parametrize("key", NOT_ABOUT_IT)
def test_a_template_for_something_else_is_not_told(key: str) -> None:
    """Another rule, parameter, tool, family, service or kind."""
    assert render(MISSING, templates={key: "no"}, tool="gmail_send") == render(MISSING)


def test_a_parameter_is_meant_with_all_that_is_in_it() -> None:
    """``to`` is also what an item of it is about."""
    assert render(NESTED, templates={"validation:to": "{parameter}!"}) == "to[1].name!"


def test_a_callers_templates_go_before_the_profiles() -> None:
    """Even a general one before the profile's most specific one; what it has none for is the profile's."""
    templates = {"validation": "Send {parameter}."}
    assert render(MISSING, profile="agentopia", tool="gmail_send", templates=templates) == "Send to."
    assert render(Crashed(), profile="rfc015", tool="a", templates=templates).startswith("Error executing tool 'a'")


FILLED: dict[str, tuple[ToolError, str, str]] = {
    "unknown tool": (
        UnknownTool("red", ("read",), ("read", "write")),
        "{tool} {suggestions} {available}",
        "red read read, write",
    ),
    "unavailable": (Unavailable("read", "paused", 30), "{tool} {reason} {seconds}", "read paused 30 seconds"),
    "not executed": (NotExecuted("plan mode"), "{tool} {reason}", "calc plan mode"),
    "malformed": (MalformedCall("trailing comma"), "{reason}", "trailing comma"),
    "question": (NeedsUserInput("To whom?", "to"), "{question} {parameter}", "To whom? to"),
    "denied": (Denied("policy", "Admins only"), "{message} ({tool})", "Admins only (calc)"),
    "set-up": (NeedsSetup("Gmail", "Log in."), "{service}: {message}", "Gmail: Log in."),
    "time-out": (TimedOut(30), "{seconds}", "30"),
    "transient": (Transient(retry_after=1), "{seconds}", "1 second"),
    "outcome unknown": (OutcomeUnknown(None, "list_mail"), "{verify_with}", "list_mail"),
    "internal": (Crashed(), "{text}!", "An unexpected error occurred while executing this tool!"),
    "braces": (Crashed(), "{{{tool}}}", "{calc}"),
}


@pytest.mark.parametrize(("error", "template", "text"), [pytest.param(*row, id=name) for name, row in FILLED.items()])
def test_places_are_filled(error: ToolError, template: str, text: str) -> None:
    """Each kind fills the places that it knows something for."""
    assert render(error, templates={error.kind: template}, tool="calc") == text


def test_the_places_of_a_problem() -> None:
    """Each problem is a line of its own, filled with what is known of it; the line that helps follows."""
    error = InvalidParams((Problem("a", "type", "an integer", "null"), Problem("b", "enum", "'x'", "a string", "x")))
    template = {"validation": "{tool}/{parameter}: {expected}, {got}, {suggestions}, {text}, {hint}"}
    assert render(error, templates=template, tool="calc") == (
        "calc/a: an integer, null, none, Invalid parameter value for a: must be an integer, not null, \n"
        "calc/b: 'x', a string, x, Invalid parameter value for b: must be 'x', Did you mean: x?\n"
        "Did you mean: x?"
    ).replace("not null, \n", "not null, Invalid parameter value for a: must be an integer, not null\n")


ALTERNATIVES = ("{service} for {tool}", "{service}", "set up")


@pytest.mark.parametrize(
    ("error", "tool", "text"),
    [
        (NeedsSetup("Gmail"), "send", "Gmail for send"),
        (NeedsSetup("Gmail"), None, "Gmail"),
        (NeedsSetup(""), "send", "set up"),
        (NeedsSetup("send"), "send", "set up"),
    ],
    ids=["all is known", "no tool", "no service", "the tool's own name"],
)
def test_of_several_texts_the_first_of_which_all_is_known(error: ToolError, tool: str | None, text: str) -> None:
    """So that a text reads well without a name, too."""
    assert render(error, templates={"configuration": ALTERNATIVES}, tool=tool) == text
    assert render(error, templates={"configuration": list(ALTERNATIVES)}, tool=tool) == text


def test_what_is_not_known_has_a_word() -> None:
    """The only text there is is told, with a word in place of what is missing."""
    assert render(Crashed(), templates={"internal": "{tool} failed: {message}"}) == (
        "this tool failed: An unexpected error occurred while executing this tool"
    )


def test_the_same_text_of_several_problems_is_told_once() -> None:
    """A template that names nothing is as good for all of them."""
    error = InvalidParams((Problem("a", "required", "x"), Problem("b", "required", "x")))
    assert render(error, profile="agentopia", tool="gmail_send").count("What email details are missing?") == 1


HOSTILE = ("{text}", "{tool.__class__}", "{0}", "{", "%s", "\\1", "{{tool}}")


@pytest.mark.parametrize("value", HOSTILE)
def test_what_fills_a_place_is_no_template(value: str) -> None:
    """Neither the name that a model wrote nor an author's message is read again."""
    assert render(UnknownTool(value), templates={"unknown_tool": "<{tool}>"}) == f"<{value}>"
    assert render(ExecutionFailed(approved(value)), templates={"execution": "<{message}>"}) == f"<{value}>"


REFUSED: dict[str, tuple[Any, str]] = {
    "unknown place": ({"internal": "{cause}"}, "asks for {cause}; there are {tool}"),
    "attribute": ({"internal": "{tool.__class__}"}, "asks for"),
    "item": ({"internal": "{tool[0]}"}, "asks for"),
    "number": ({"internal": "{0}"}, "asks for"),
    "no name": ({"internal": "{}"}, "asks for"),
    "conversion": ({"internal": "{tool!r}"}, "asks for"),
    "format": ({"internal": "{tool:>9}"}, "asks for"),
    "nested": ({"internal": "{tool:{text}}"}, "asks for"),
    "brace": ({"internal": "{tool"}, "cannot be read"),
    "no text": ({"internal": " "}, "has no text"),
    "no texts": ({"internal": ()}, "has no text"),
    "another type": ({"internal": (1,)}, "has no text"),
    "one of several": ({"internal": ("a", "{b}")}, "asks for"),
    "no kind": ({"crash": "x"}, "'crash' is for no kind of error; there are configuration"),
    "no key": ({"": "x"}, "is for no kind of error"),
    "a key that is no text": ({1: "x"}, "mapping of text"),
    "a text that is none": ({"internal": 1}, "mapping of text"),
    "no mapping": ([("internal", "x")], "mapping of text"),
    "two services": ({"provider=a:provider=b:configuration": "x"}, "empty, or too much"),
    "no service": ({"provider=:configuration": "x"}, "empty, or too much"),
    "no tool": ({":configuration": "x"}, "empty, or too much"),
    "no parameter": ({"validation:": "x"}, "empty, or too much"),
    "no rule": ({"validation.": "x"}, "empty, or too much"),
}


@pytest.mark.parametrize(("templates", "text"), [pytest.param(*row, id=name) for name, row in REFUSED.items()])
def test_a_template_that_makes_no_sense_is_refused_at_once(templates: Any, text: str) -> None:
    """Also where this error would not be told by it."""
    with pytest.raises(SetupError, match=text.replace("{", r"\{")):
        render(TimedOut(), templates=templates)


def test_a_tools_name_may_hold_colons() -> None:
    """All before the kind is the tool's name."""
    assert render(Crashed(), templates={"server:tool:internal": "x"}, tool="server:tool") == "x"


@given(
    ERRORS,
    st.sampled_from(["{tool}", "{message}{question}", "{expected} {got}", "{text}", "{parameter}", "{suggestions}"]),
    st.none() | st.text(max_size=5),
)
def test_a_template_makes_no_text_empty(error: ToolError, template: str, tool: str | None) -> None:
    """Whatever fills it: there is a text, and it can be sent."""
    text = render(error, templates={error.kind: template}, tool=tool)
    assert text.strip()
    assert len(text) <= 8_000
    assert text.encode().decode() == text
