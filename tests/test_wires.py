"""What holds for the adapters of all providers: calls come back whole, and half a reply makes no wrong call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolcall_pipeline import Call, Failure, SetupError, UnknownTool, gather_sync
from toolcall_pipeline.adapters import mistral, openai
from toolcall_pipeline.adapters.replies import Calls, ReplyError
from toolcall_pipeline.middlewares import standard
from wire_replies import TWO, WIRES, Asked, Json, Wire, recording

every_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)

KEYS = st.sampled_from(["a", "b", "some_name", "é"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(KEYS, inner, min_size=1, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=3)


def as_object(arguments: Any) -> Any:
    return json.loads(arguments or "{}") if isinstance(arguments, str) else arguments or {}


@every_wire
@pytest.mark.parametrize("form", ["whole", "stream", "iterator"])
def test_two_calls_and_a_text(wire: Wire, form: str) -> None:
    """The calls of a reply come in order with their arguments, and the text beside them can be read."""
    reply: Any = wire.reply(TWO, "I add.") if form == "whole" else wire.chunks(TWO, "I add.")
    found = wire.adapter.calls(iter(reply) if form == "iterator" else reply)
    assert [(call.name, as_object(call.arguments)) for call in found] == [(name, each) for _, name, each in TWO]
    assert (found.text, found.error) == ("I add.", None)


@every_wire
def test_what_is_not_given_is_not_there(wire: Wire) -> None:
    """Without options a call has no caller and no conversation, and a call that stands in the text is only text."""
    for call in wire.adapter.calls(wire.reply(TWO, "")):
        assert (call.principal, call.deps, call.conversation) == ("", None, "")
    written = '<tool_call>{"name": "add", "arguments": {}}</tool_call>'
    assert [call.name for call in wire.adapter.calls(wire.reply([], written), text=True)] == ["add"]
    assert wire.adapter.calls(wire.reply([], written)) == []


@every_wire
@settings(max_examples=12)
@given(st.lists(ARGUMENTS, min_size=1, max_size=2))
def test_a_stream_that_is_cut_makes_no_wrong_call(wire: Wire, asked: list[Json]) -> None:
    """Wherever a stream breaks off, only calls that had come whole are run; at its end, all of them."""
    calls: list[Asked] = [(f"id{place:07}", "add", each) for place, each in enumerate(asked)]
    kept: list[Json] = []
    tools = recording(kept)
    chunks = wire.chunks(calls, "Hm.")
    for end in range(len(chunks) + 1):
        kept.clear()
        run = standard(tools)  # another one for each: a pipeline runs a call of one reply once
        gather_sync(run, wire.adapter.calls(chunks[:end], tools))
        assert all(each in asked for each in kept)
        assert len(kept) <= len(asked)
    assert sorted(map(str, kept)) == sorted(map(str, asked))


@every_wire
def test_no_client_returns_none(wire: Wire) -> None:
    """None and a number are mistakes of the caller, and said as such."""
    for reply in (None, 5, b"{}"):
        with pytest.raises(SetupError, match="reads what the client of"):
            wire.adapter.calls(reply)


@every_wire
def test_an_error_in_place_of_a_reply(wire: Wire) -> None:
    """It is no exception, and stands beside the calls."""
    found = wire.adapter.calls({"error": {"message": "overloaded", "type": "overloaded_error"}})
    assert (found, found.error) == ([], ReplyError("overloaded", "overloaded_error"))
    assert wire.adapter.calls({"detail": "not found"}).error.type == "unreadable"
    assert wire.adapter.calls([]) == []


@every_wire
def test_a_reply_of_another_provider(wire: Wire) -> None:
    """Each adapter refuses the replies of the others and names the right one."""
    speak_openai = (openai, mistral)
    for other in WIRES.values():
        if other.adapter is not wire.adapter and not {other.adapter, wire.adapter} <= {*speak_openai}:
            right = openai if other.adapter is mistral else other.adapter
            for reply in (other.reply(TWO), other.chunks(TWO)):
                with pytest.raises(SetupError, match=f"use {right.__name__}"):
                    wire.adapter.calls(reply)


WORDS = """
    candidates content parts functionCall args name id partialArgs jsonPath stringValue willContinue finishReason output
    message toolUse input stopReason contentBlockStart contentBlockDelta contentBlockIndex contentBlockStop messageStop
    start delta role tool_calls function arguments done stream data choices
""".split()  # noqa: SIM905  # one word a line fills a page
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(WORDS),
            inner,
            max_size=6,
        )
    ),
)


@every_wire
@example({"stream": 0})
@example({"stream": "later"})
@example({"stream": {"chunk": []}})
@given(JUNK.filter(lambda reply: isinstance(reply, (str, list, dict))))
def test_calls_never_raises(wire: Wire, reply: Any) -> None:
    """Whatever stands in a reply, each call has text as its name and its id, and can be sent back."""
    try:
        found = wire.adapter.calls(reply)
    except SetupError as error:
        assert "this is a reply of" in str(error)  # noqa: PT017  # the other words are tested above
        return
    for call in found:
        assert isinstance(call.name, str)
        assert isinstance(call.id, str)
    said, fitted = wire.adapter.send_back(found)
    json.dumps(said)
    assert len(fitted) == len(found)


@every_wire
def test_sent_back_calls_are_read_again(wire: Wire) -> None:
    """The message that stands for a stream has the same calls and the same text."""
    said, _ = wire.adapter.send_back(wire.adapter.calls(wire.chunks(TWO, "I add.")))
    again = wire.adapter.calls(said)
    assert [(call.name, as_object(call.arguments)) for call in again] == [(name, each) for _, name, each in TWO]
    assert again.text == "I add."


ODD: Any = st.none() | st.integers() | st.text(max_size=8) | st.just("add") | st.builds(object)
ODD_ARGUMENTS: Any = (
    ODD | st.lists(st.integers()) | st.sampled_from(["null", '{"a": NaN}', '{"a": 1e999}', '{"a": 1', "[]"])
)


@every_wire
@given(ODD, ODD_ARGUMENTS, ODD)
def test_odd_calls_are_sent_back_and_answered(wire: Wire, name: Any, arguments: Any, id_: Any) -> None:
    """Whatever a call is made of, nothing is raised, and what goes to the provider is JSON."""
    said, (call,) = wire.adapter.send_back(Calls([Call(name, arguments, id_)]))
    told: Any = []
    for each in (call, Call(name, arguments, id_)):
        outcome = Failure(UnknownTool(name))
        told.append(
            wire.adapter.messages([(each, outcome)])
            if hasattr(wire.adapter, "messages")
            else wire.adapter.message(each, outcome)
        )
    json.dumps([said, told[0]], allow_nan=False)
