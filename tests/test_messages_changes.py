"""What changed since the last failure of a tool, and the Conversation that remembers that failure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from error_cases import ERRORS, PROFILES
from support import a_call, a_tool
from toolcall_pipeline import (
    Call,
    Crashed,
    Denied,
    ExecutionFailed,
    InvalidParams,
    MalformedCall,
    Problem,
    Repair,
    ResourceNotFound,
    SetupError,
    ToolError,
    ToolRegistry,
    Unavailable,
    UnknownTool,
)
from toolcall_pipeline.messages import Conversation, render
from toolcall_pipeline.middlewares import standard


def wrong(*paths: str, sent: Any = None, rule: str = "required") -> InvalidParams:
    return InvalidParams(tuple(Problem(path, rule, "a string") for path in paths), sent=sent)


class Hostile:
    """Raises when it is compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("hunter2")

    def __hash__(self) -> int:
        return 0


SAME = "These are the same arguments as before."
LONG = "x" * 60
CHANGES: dict[str, tuple[ToolError, ToolError, str]] = {  # before, now
    "one is fixed": (wrong("to", "date"), wrong("date"), "`to` is fixed, `date` is still wrong."),
    "another way of being wrong": (
        wrong("to", "date"),
        wrong("date", rule="format"),
        "`to` is fixed, `date` is still wrong.",
    ),
    "several": (
        wrong("a", "b", "c", "d"),
        wrong("c", "d"),
        "`a` and `b` are fixed, `c` and `d` are still wrong.",
    ),
    "many": (
        wrong("a", "b", "c", "d", "e", "f"),
        wrong("f"),
        "`a`, `b`, `c` and 2 more are fixed, `f` is still wrong.",
    ),
    "all are fixed but a new one": (wrong("to"), wrong("date"), "`to` is fixed, `date` is now wrong."),
    "none is fixed": (wrong("to", sent={}), wrong("to", sent={"a": 1}), "`to` is still wrong."),
    "hidden behind a greater mistake": (wrong("a.b", "c"), wrong("a", "c"), "`c` is still wrong, `a` is now wrong."),
    "hidden in an array": (wrong("a[0]"), wrong("a"), "`a` is now wrong."),
    "all of them hidden": (wrong("to"), wrong("", rule="type"), ""),
    "the whole": (wrong("", "to"), wrong("", sent={}), "`to` is fixed, the whole is still wrong."),
    "the whole is not looked at again": (wrong("", rule="validator"), wrong("to"), "`to` is now wrong."),
    "a long name": (wrong(LONG), wrong("a"), f"`{LONG[:50]}…` is fixed, `a` is now wrong."),
    "a name with a mark": (wrong("a`b\nc"), wrong("a"), "`a'b c` is fixed, `a` is now wrong."),
    "the same text": (wrong("a", sent='{"b":1}'), wrong("a", sent='{"b":1}'), SAME),
    "text of the same content": (wrong("a", sent='{"b": 1, "c": 2}'), wrong("a", sent={"c": 2, "b": 1}), SAME),
    "another text": (wrong("a", sent='{"b": 1}'), wrong("a", sent='{"b": 2}'), "`a` is still wrong."),
    "a number and a boolean": (wrong("a", sent={"b": 1}), wrong("a", sent={"b": True}), "`a` is still wrong."),
    "no JSON, the same": (wrong("a", sent="{b"), wrong("a", sent="{b"), SAME),
    "no JSON, another": (wrong("a", sent="{b"), wrong("a", sent="{c"), "`a` is still wrong."),
    "nested without end": (wrong("a", sent="[" * 99_999), wrong("a", sent="[" * 99_999), SAME),
    "keys that are no text": (wrong("a", sent={1: 2, "b": 3}), wrong("a", sent={"b": 3, 1: 2}), SAME),
    "hostile": (wrong("a", sent={"b": Hostile()}), wrong("a", sent={"b": Hostile()}), "`a` is still wrong."),
    "not known, equal problems": (wrong("a"), wrong("a"), SAME),
    "known of one, equal problems": (wrong("a"), wrong("a", sent={}), SAME),
    "no problems": (InvalidParams(()), InvalidParams(()), ""),
    "the same name": (UnknownTool("raed"), UnknownTool("raed", ("read",)), "This is the same name as before."),
    "another name": (UnknownTool("raed"), UnknownTool("reed"), ""),
    "cut off again": (
        MalformedCall("EOF", truncated=True),
        MalformedCall("length", truncated=True),
        "They were cut off before, too.",
    ),
    "malformed in the same place": (
        MalformedCall("comma", (1, 2)),
        MalformedCall("comma", (1, 2)),
        "It is the same mistake in the same place as before.",
    ),
    "malformed, not known": (MalformedCall("they are null"), MalformedCall("they are null"), ""),
    "malformed in another place": (MalformedCall("comma", (1, 2)), MalformedCall("comma", (1, 3)), ""),
    "the same failure": (ExecutionFailed("No."), ExecutionFailed("No."), "This is the same error as before."),
    "another failure": (ExecutionFailed("No."), ExecutionFailed("Never."), ""),
    "the same thing missing": (ResourceNotFound("a"), ResourceNotFound("a"), "This is the same error as before."),
    "another kind": (MalformedCall("comma", (1, 2)), wrong("a"), ""),
    "not for the model": (Unavailable("a", "paused"), Unavailable("a", "paused"), ""),
    "a crash": (Crashed(), Crashed(), ""),
    "denied again": (Denied("policy"), Denied("policy"), ""),
}


@pytest.mark.parametrize(("before", "now", "text"), [pytest.param(*row, id=name) for name, row in CHANGES.items()])
def test_a_text_says_what_changed(before: ToolError, now: ToolError, text: str) -> None:
    """Below the text of an error stands what is fixed, what is still wrong, or that nothing changed."""
    alone = render(now)
    assert render(now, previous=before) == (f"{alone}\n{text}" if text else alone)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_says_what_changed(profile: str) -> None:
    """Every profile and verbosity has the same words for a change."""
    now = wrong("date")
    assert "`to` is fixed, `date` is still wrong" in render(now, previous=wrong("to", "date"), profile=profile)
    assert "same arguments as before" in render(now, previous=now, profile=profile, verbosity="terse")


def test_a_change_has_room_below_many_problems() -> None:
    """The budget of the problems leaves room for the sentence about the change."""
    now = wrong(*(f"p{place}" for place in range(500)))
    lines = render(now, previous=wrong("to", *(f"p{place}" for place in range(500))), verbosity="terse").splitlines()
    assert lines[-1] == "`to` is fixed, `p0`, `p1`, `p2` and 497 more are still wrong."
    assert lines[-2].endswith("more of these.")


@given(st.lists(st.none() | ERRORS, min_size=1, max_size=6), st.sampled_from(PROFILES))
def test_a_conversation_is_total(errors: list[ToolError | None], profile: str) -> None:
    """A conversation has a text for every outcome, after any others."""
    conversation = Conversation(profile=profile, tools=2)
    for place, error in enumerate(errors):
        call = Call(f"tool{place % 3}")
        text = conversation.render(call, Success(1) if error is None else Failure(error))
        assert text.strip()
        assert "hunter2" not in text


def test_a_conversation_remembers_the_last_failure_of_each_tool() -> None:
    """A failure is compared with the last one of the same tool, whatever other tools did in between."""
    conversation = Conversation()
    first = wrong("to", "date")
    assert conversation.render(Call("send"), Failure(first)) == render(first)
    assert conversation.render(Call("read"), Failure(wrong("path"))) == render(wrong("path"))
    assert conversation.render(Call("send"), Failure(wrong("date"))) == render(wrong("date"), previous=first)


def test_a_success_ends_the_memory_of_a_failure() -> None:
    """After a success of the tool, or `forget`, a failure is compared with nothing."""
    conversation = Conversation()
    conversation.render(Call("send"), Failure(wrong("to")))
    assert conversation.render(Call("send"), Success("sent")) == "sent"
    assert conversation.render(Call("send"), Failure(wrong("to"))) == render(wrong("to"))
    conversation.forget()
    assert conversation.render(Call("send"), Failure(wrong("to"))) == render(wrong("to"))


def test_a_conversation_remembers_a_bounded_number_of_tools() -> None:
    """With ``tools`` failures in memory, the oldest one is forgotten first."""
    conversation = Conversation(tools=2)
    for name in ("a", "b", "a", "c"):
        conversation.render(Call(name), Failure(wrong("to")))
    told = {name: conversation.render(Call(name), Failure(wrong("to"))) for name in ("a", "c")}
    assert all("same arguments" in text for text in told.values())
    assert "same arguments" not in conversation.render(Call("b"), Failure(wrong("to")))


def test_a_conversation_uses_the_tools_own_name() -> None:
    """A resolved call counts for its tool, however the model spelt the name."""
    conversation = Conversation(profile="rfc015")
    tool = a_tool("read")
    assert conversation.render(a_call(tool), Failure(Crashed())).startswith("Error executing tool 'read'")
    resolved = Call("READ").resolved(tool)
    conversation.render(resolved, Failure(wrong("to")))
    assert "same arguments" in conversation.render(Call("read"), Failure(wrong("to")))


@pytest.mark.parametrize("name", [None, 5, "", b"x", ["a"]], ids=repr)
def test_a_name_may_be_anything(name: Any) -> None:
    """A conversation accepts a name of any type, as a call does."""
    conversation = Conversation()
    assert conversation.render(Call(name), Failure(UnknownTool(""))) == render(UnknownTool(""))
    assert "same name" in conversation.render(Call(name), Failure(UnknownTool("")))


def test_a_conversation_passes_its_options_on() -> None:
    """The texts have the conversation's profile, verbosity, templates and limit, and a note about repairs."""
    conversation = Conversation("agentopia", "terse", {"internal": "{tool} broke"}, limit=60)
    assert conversation.render(Call("gmail_send"), Failure(wrong("subject"))) == (
        "Question: What should be the subject line of this email?"
    )
    assert conversation.render(Call("read"), Failure(Crashed())) == "read broke"
    assert "left out" in conversation.render(Call("read"), Success("x" * 99))
    repairs = (Repair("n", "number_text", "5", 5),)
    assert conversation.render(Call("read"), Success("x"), repairs).endswith("Send it as a number.")


@pytest.mark.parametrize(
    "options",
    [{"profile": "x"}, {"verbosity": "x"}, {"templates": {"x": "y"}}],
    ids=["profile", "verbosity", "templates"],
)
def test_bad_options_are_refused_when_a_conversation_is_made(options: Any) -> None:
    """An unknown option raises SetupError at once, and not with the first failure."""
    with pytest.raises(SetupError):
        Conversation(**options)


@pytest.mark.parametrize("options", [{"verbosity": "full"}, {"previous": True}, {}])
def test_the_closing_line_stands_once(options: dict[str, Any]) -> None:
    """Also of a kind whose text no template has."""
    tools = ToolRegistry()

    @tools.tool
    async def act(query: str) -> None: ...

    error = standard(tools).call_sync("act", "{bad").failure()
    said: dict[str, Any] = {**options, "previous": error} if "previous" in options else options
    assert render(error, **said).count("Fix the errors and try again") == 1
