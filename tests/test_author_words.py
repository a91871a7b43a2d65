"""What the author of a tool writes into a ToolFailed arrives: in each kind, in each profile, for each effect."""

from __future__ import annotations

import json
import pickle
from typing import Any, get_args

import pytest

from error_cases import PROFILES, VERBOSITIES
from support import a_tool
from toolcall_pipeline import Effect, Outcome, ToolFailed, ToolRegistry, render
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.tools.failure import FailureKind

KINDS: tuple[FailureKind, ...] = get_args(FailureKind)
PARTS: dict[str, Any] = {
    "parameter": "cents",
    "constraint": "at most 500000",
    "value": 700_000,
    "suggestion": "Split it over two days.",
    "retry_after": 7,
    "details": {"limit_of": "the account", "used": 12.5},
}
WORDS = ("The daily limit is used up", "Split it over two days.", "at most 500000", "700000", "the account", "12.5")


async def fail(kind: FailureKind, effect: Effect = "read", **parts: Any) -> Outcome:
    async def body(**_: object) -> object:
        raise ToolFailed("The daily limit is used up", kind=kind, **{**PARTS, **parts})

    tools = ToolRegistry()
    tools.register(a_tool(fn=body, effect=effect, verify_with="look"))
    tools.register(a_tool("look"))
    return await standard(tools, attempts=1).call("probe", {})


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("effect", ["read", "mutating"])
async def test_each_part_arrives(kind: FailureKind, profile: str, effect: Effect) -> None:
    """Message, suggestion, constraint, value, further facts and the wait stand in the text, at each verbosity."""
    outcome = await fail(kind, effect)
    for verbosity in VERBOSITIES:
        text = render(outcome, profile=profile, verbosity=verbosity, tool="probe")
        assert [word for word in WORDS if word not in text] == []
        assert "7 seconds" in text or '"retryAfter": 7' in text
        assert text.count("The daily limit is used up") == 1
        assert profile == "structured" or verbosity != "terse" or text.count("\n") <= 1


@pytest.mark.parametrize("kind", KINDS)
async def test_the_json_form_has_the_fields(kind: FailureKind) -> None:
    """In the profile ``structured`` each part is a field of ``details``, with its own type."""
    details = json.loads(render(await fail(kind), profile="structured"))["details"]
    expected = {"parameter": "cents", "value": 700_000, "retryAfter": 7, "limit_of": "the account", "used": 12.5}
    assert {name: details.get(name) for name in expected} == expected
    assert details["suggestion"] == PARTS["suggestion"]
    assert details["constraint"] == PARTS["constraint"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_the_author_left_out_is_not_told(kind: FailureKind) -> None:
    """Without further parts the text is the message, in the frame of its kind."""
    nothing: Any = dict.fromkeys(PARTS)
    text = render(await fail(kind, **nothing))
    assert "Details" not in text
    assert "Try again" not in text
    assert "None" not in text


ODD: dict[str, Any] = {
    "parameter": 5,
    "constraint": ["at most", 5],
    "value": object(),
    "suggestion": 7,
    "retry_after": "soon",
    "details": [1, 2],
}


@pytest.mark.parametrize("kind", [*KINDS, "weather", 5, None, []])
async def test_odd_parts_are_told_as_text_or_left_out(kind: Any) -> None:
    """A part of a wrong type neither hides the message nor raises, and the outcome pickles."""
    outcome = await fail(kind, **ODD)
    for profile in PROFILES:
        assert "The daily limit is used up" in render(outcome, profile=profile, verbosity="full")
    assert pickle.loads(pickle.dumps(outcome)) == outcome
