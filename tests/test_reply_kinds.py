"""Every kind of reply: what comes out of it, and nothing in silence."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reply_kinds import ASKED, KINDS, Kind, chat, chunks, message, table
from toolcall_pipeline import Call
from toolcall_pipeline.adapters import anthropic, bedrock, gemini, openai
from toolcall_pipeline.adapters.replies import Unhandled

IDS = [f"{kind.provider}: {kind.what}" for kind in KINDS]
GUIDE = Path(__file__).parent.parent / "pipeline" / "adapters" / "REPLIES.md"


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_what_comes_out(kind: Kind) -> None:
    """Calls, text, error, finish reason, refusal and items are those of the table, and the reply is not changed."""
    before = copy.deepcopy(kind.reply)
    found = kind.adapter.calls(kind.reply)
    assert [call.name for call in found] == [*kind.calls]
    assert (found.text, found.finish_reason, bool(found.refusal)) == (kind.text, kind.finish, kind.refused)
    assert tuple(found.unhandled) == kind.unhandled
    error = found.error
    assert ("" if error is None else error.type or error.message) == kind.error
    assert error is None or error.message
    assert kind.reply == before


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_nothing_is_silent(kind: Kind) -> None:
    """A reply has calls, a text or an error, so that no agent ends without a word; an item for the client is named."""
    found = kind.adapter.calls(kind.reply)
    assert found or found.text or found.error
    assert all(each and each.item for each in found.unhandled)


def test_the_guide_has_the_table() -> None:
    """The guide of the adapters shows the rows that `table` writes, and there are at least 57 kinds."""
    assert table() in GUIDE.read_text()
    assert len(KINDS) >= 57


WITH_AN_ID: list[Any] = [
    (openai, chat("tool_calls", tool_calls=[ASKED])),
    (openai, chunks("tool_calls", {"tool_calls": [{"index": 0, **ASKED}]})),
    (anthropic, message("tool_use", {"type": "tool_use", "id": "t", "name": "add", "input": {}})),
    (
        anthropic,
        [
            {"type": "message_start", "message": {"id": "r"}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "tool_use", "id": "t", "name": "add", "input": {}},
            },
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        ],
    ),
    (gemini, {"candidates": [{"content": {"parts": [{"functionCall": {"name": "add"}}]}}], "responseId": "r"}),
    (
        bedrock,
        {
            "output": {"message": {"role": "assistant", "content": [{"toolUse": {"name": "add", "input": {}}}]}},
            "stopReason": "tool_use",
            "ResponseMetadata": {"RequestId": "r"},
        },
    ),
]


@pytest.mark.parametrize(
    ("adapter", "reply"),
    WITH_AN_ID,
    ids=["chat", "chat stream", "anthropic", "anthropic stream", "gemini", "bedrock"],
)
def test_a_call_knows_its_reply(adapter: Any, reply: Any) -> None:
    """The provider's id of the reply stands in each call, also of a stream."""
    (call,) = adapter.calls(reply)
    assert call.reply == "r"


@pytest.mark.parametrize(
    ("text", "explanation", "refusal"),
    [
        ("I cannot.", None, "I cannot."),
        ("", "Not in this country.", "Not in this country."),
        ("I cannot.", "Not in this country.", "Not in this country."),
    ],
)
def test_the_words_of_a_refusal_of_anthropic(text: str, explanation: str | None, refusal: str) -> None:
    """The explanation of the provider, and without one the text of the model."""
    stop = {} if explanation is None else {"stop_details": {"explanation": explanation}}
    said = [{"type": "text", "text": text}]
    found = anthropic.calls({"type": "message", "content": said, "stop_reason": "refusal", **stop})
    assert (found.refusal, found.text) == (refusal, text)


def test_an_item_pickles() -> None:
    """The type of an item is a text, and it keeps the item."""
    item = pickle.loads(pickle.dumps(Unhandled("image", {"a": 1}, waits=False)))
    assert (item, item.item, item.waits) == ("image", {"a": 1}, False)


def test_objects_without_a_dump_are_read() -> None:
    """An object that is no pydantic model is read by its attributes; its message is made of its calls."""
    asked = SimpleNamespace(id="c", type="function", function=SimpleNamespace(name="add", arguments="{}"))
    said = SimpleNamespace(role="assistant", content=None, tool_calls=[asked], refusal=None)
    found = openai.calls(SimpleNamespace(choices=[SimpleNamespace(message=said, finish_reason="tool_calls")]))
    assert found == [Call("add", "{}", "c", finish_reason="tool_calls")]
    assert openai.send_back(found)[0]["tool_calls"][0]["id"] == "c"
