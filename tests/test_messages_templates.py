"""Templates: the most specific key that fits an error wins, and its text is filled with what is known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_cases import ERRORS
from toolcall_pipeline import (
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
from toolcall_pipeline.messages import render
from toolcall_pipeline.privacy import approved

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
    """A key with a tool goes first, then one with a service, a family, a parameter, a rule, whatever their order."""
    for number in range(1, len(keys) + 1):
        given_ = {key: f"by {key}" for key in reversed(keys[:number])}
        assert render(error, templates=given_, tool="gmail_send").splitlines()[0] == f"by {keys[number - 1]}"


OF_OTHER_ERRORS = (
    "validation.type",
    "validation:from",
    "validation.required:t",
    "gmail_read:validation",
    "smtp_*:validation",
    "provider=Gmail:validation",
    "configuration",
)


@pytest.mark.parametrize("key", OF_OTHER_ERRORS)
def test_a_template_for_another_error_is_not_used(key: str) -> None:
    """A template with another rule, parameter, tool, family, service or kind is not used."""
    assert render(MISSING, templates={key: "no"}, tool="gmail_send") == render(MISSING)


def test_a_parameter_includes_all_inside_it() -> None:
    """A template for ``to`` is also for a problem at an item of ``to``."""
    assert render(NESTED, templates={"validation:to": "{parameter}!"}) == "to[1].name!"


def test_the_callers_templates_go_before_those_of_the_profile() -> None:
    """A general template of the caller wins over a specific one of the profile."""
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
def test_fields_are_filled(error: ToolError, template: str, text: str) -> None:
    """Each kind of error fills the fields that it knows."""
    assert render(error, templates={error.kind: template}, tool="calc") == text


def test_the_fields_of_a_problem() -> None:
    """Each problem has a text of its own, filled with what is known of it, and the line of help follows."""
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
def test_the_first_text_whose_fields_are_all_known_is_used(error: ToolError, tool: str | None, text: str) -> None:
    """Of several texts the first is used whose fields are all known."""
    assert render(error, templates={"configuration": ALTERNATIVES}, tool=tool) == text
    assert render(error, templates={"configuration": list(ALTERNATIVES)}, tool=tool) == text


def test_an_unknown_field_is_filled_with_fixed_words() -> None:
    """Where the last text has an unknown field, fixed words stand in its place."""
    assert render(Crashed(), templates={"internal": "{tool} failed: {message}"}) == (
        "this tool failed: An unexpected error occurred while executing this tool"
    )


def test_the_same_text_of_several_problems_is_told_once() -> None:
    """Problems with the same text are one line."""
    error = InvalidParams((Problem("a", "required", "x"), Problem("b", "required", "x")))
    assert render(error, profile="agentopia", tool="gmail_send").count("What email details are missing?") == 1


HOSTILE = ("{text}", "{tool.__class__}", "{0}", "{", "%s", "\\1", "{{tool}}")


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_is_never_read_as_a_template(value: str) -> None:
    """Braces in the name that a model wrote, or in an author's message, stay as they are."""
    assert render(UnknownTool(value), templates={"unknown_tool": "<{tool}>"}) == f"<{value}>"
    assert render(ExecutionFailed(approved(value)), templates={"execution": "<{message}>"}) == f"<{value}>"


REFUSED: dict[str, tuple[Any, str]] = {
    "unknown field": ({"internal": "{cause}"}, "'internal': unknown field {cause}; known: {tool}"),
    "attribute": ({"internal": "{tool.__class__}"}, "unknown field"),
    "item": ({"internal": "{tool[0]}"}, "unknown field"),
    "number": ({"internal": "{0}"}, "unknown field"),
    "no name": ({"internal": "{}"}, "unknown field"),
    "conversion": ({"internal": "{tool!r}"}, "unknown field"),
    "format": ({"internal": "{tool:>9}"}, "unknown field"),
    "nested": ({"internal": "{tool:{text}}"}, "unknown field"),
    "brace": ({"internal": "{tool"}, "cannot parse '{tool'"),
    "blank text": ({"internal": " "}, "must be a str that is not blank, not ' '"),
    "no texts": ({"internal": ()}, "has no text"),
    "another type": ({"internal": (1,)}, "not 1"),
    "one of several": ({"internal": ("a", "{b}")}, "unknown field"),
    "no kind": ({"crash": "x"}, "'crash': its key names no kind of error; known: "),
    "no key": ({"": "x"}, "names no kind of error"),
    "a key that is not text": ({1: "x"}, "must map each key to a text"),
    "a text of another type": ({"internal": 1}, "must map each key to a text"),
    "no mapping": ([("internal", "x")], "must map each key to a text"),
    "two services": ({"provider=a:provider=b:configuration": "x"}, "empty or given twice"),
    "no service": ({"provider=:configuration": "x"}, "empty or given twice"),
    "no tool": ({":configuration": "x"}, "empty or given twice"),
    "no parameter": ({"validation:": "x"}, "empty or given twice"),
    "no rule": ({"validation.": "x"}, "empty or given twice"),
}


@pytest.mark.parametrize(("templates", "text"), [pytest.param(*row, id=name) for name, row in REFUSED.items()])
def test_a_bad_template_is_refused_at_once(templates: Any, text: str) -> None:
    """A template with a bad key or text raises SetupError, even if the error at hand does not need it."""
    with pytest.raises(SetupError, match=text.replace("{", r"\{")):
        render(TimedOut(), templates=templates)


def test_a_tools_name_may_hold_colons() -> None:
    """In a key, everything in front of the kind is the tool's name."""
    assert render(Crashed(), templates={"server:tool:internal": "x"}, tool="server:tool") == "x"


@given(
    ERRORS,
    st.sampled_from(["{tool}", "{message}{question}", "{expected} {got}", "{text}", "{parameter}", "{suggestions}"]),
    st.none() | st.text(max_size=5),
)
def test_a_template_makes_no_text_empty(error: ToolError, template: str, tool: str | None) -> None:
    """A text is not empty, within the budget, and can be encoded, whatever fills its template."""
    text = render(error, templates={error.kind: template}, tool=tool)
    assert text.strip()
    assert len(text) <= 8_000
    assert text.encode().decode() == text
