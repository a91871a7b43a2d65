"""Gemini: calls that come path by path, replies that the provider could not read, and what answers them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import fake_providers as fake
from toolcall_pipeline import Call, Failure, Outcome, SetupError, Success, Tool, ToolRegistry, UnknownTool
from toolcall_pipeline.adapters import gemini
from toolcall_pipeline.adapters.gemini_streams import join_partial_args
from toolcall_pipeline.adapters.replies import ReplyError
from toolcall_pipeline.middlewares import standard
from wire_replies import SIGNATURE, TWO, candidates, gemini_chunks, gemini_partial_chunks, gemini_reply

PNG = b"\x89PNG\r\n\x1a\n and so on"


def piece(path: str, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value}


def test_definitions() -> None:
    """The schema is given as JSON Schema; a name that the provider refuses is sent in another form."""
    (offered,) = gemini.tools(fake.adders())
    add, read = offered["function_declarations"]
    assert (add["name"], add["description"]) == ("add", "Add two numbers.")
    assert add["parameters_json_schema"]["required"] == ["a"]
    assert read["name"].startswith("fs_read_")
    assert gemini.tools(ToolRegistry()) == []


def test_a_name_that_begins_with_a_digit_is_refused() -> None:
    """The provider would refuse the whole request."""
    tools = ToolRegistry()
    tools.register(Tool.from_schema(name="2fa", parameters={}, handler=dict, effect="read"))
    with pytest.raises(SetupError, match="begin with a letter or _, not '2fa'"):
        gemini.tools(tools)


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        ([piece("$.a", stringValue="New ", willContinue=True), piece("$.a", stringValue="York")], {"a": "New York"}),
        ([piece("$.a", stringValue="x", willContinue=True), piece("$.a")], {"a": "x"}),
        ([piece("$.a", willContinue=True), piece("$.a", stringValue="x")], {"a": "x"}),
        ([piece("$.a", numberValue=3.0), piece("$.b", numberValue=0.5)], {"a": 3, "b": 0.5}),
        ([piece("$.a", boolValue=False), piece("$.b", nullValue=None)], {"a": False, "b": None}),
        ([piece("$.a[0].b", numberValue=1), piece("$.a[1].b", numberValue=2)], {"a": [{"b": 1}, {"b": 2}]}),
        ([piece("$['a b']", numberValue=1), piece('$["c.d"][0]', numberValue=2)], {"a b": 1, "c.d": [2]}),
        ([piece("$.a-b", numberValue=1), piece("$.é", numberValue=2)], {"a-b": 1, "é": 2}),
    ],
)
def test_partial_args(pieces: list[Any], arguments: Any) -> None:
    """Each value gets to its path; the pieces of a text are joined; a whole double is an integer."""
    found = join_partial_args(pieces)
    assert found == arguments
    assert [type(value) for value in found.values()] == [type(value) for value in arguments.values()]


@pytest.mark.parametrize(
    "pieces",
    [
        [piece("a", numberValue=1)],
        [piece("$", numberValue=1)],
        [piece("$..a", numberValue=1)],
        [piece("$.a[*]", numberValue=1)],
        [piece("$.a[1]", numberValue=1)],
        [piece("$.a[999999999]", numberValue=1)],
        [piece("$[0]", numberValue=1)],
        [piece("$.a" * 101, numberValue=1)],
        [piece("$.a", numberValue=1), piece("$.a", numberValue=2)],
        [piece("$.a", numberValue=1), piece("$.a", stringValue="x")],
        [piece("$.a", numberValue=1), piece("$.a.b", numberValue=2)],
        [piece("$.a.b", numberValue=1), piece("$.a", numberValue=2)],
        [piece("$.a[0]", numberValue=1), piece("$.a.b", numberValue=2)],
        [piece("$.a")],
        [piece("$.a", numberValue=[1]), piece("$.a", stringValue="x")],
        [{"numberValue": 1}],
        [None],
    ],
)
async def test_pieces_that_do_not_fit_are_refused(pieces: list[Any]) -> None:
    """Whatever makes no object is no call that runs: the pieces stay as they are, and a pipeline refuses them."""
    assert join_partial_args(pieces) == pieces
    head: Any = {"functionCall": {"name": "add", "partialArgs": pieces}}
    (call,) = gemini.calls([candidates(head), candidates(finish="STOP")])
    assert isinstance(await standard(fake.adders())(call), Failure)


@pytest.mark.parametrize("odd", [[1], [None], ["x"], {"b": 1}])
def test_a_number_that_is_none_stays_what_it_is(odd: Any) -> None:
    """It is no text in pieces: the schema says whether it fits."""
    assert join_partial_args([piece("$.a", numberValue=odd)]) == {"a": odd}


def test_a_call_that_nobody_ended_was_cut_off() -> None:
    """The arguments of a call that was to go on are not all of them; the calls before it are whole."""
    chunks = gemini_partial_chunks(TWO)
    found = gemini.calls([*chunks[:-2], chunks[-1]])
    assert [call.finish_reason for call in found] == ["STOP", "length"]


def test_pieces_beside_other_arguments_are_refused() -> None:
    """Nobody knows which of them were meant; the whole that comes again at the end is the same."""
    begin: Any = {"functionCall": {"name": "add", "willContinue": True, "partialArgs": [piece("$.a", numberValue=1)]}}
    (same,) = gemini.calls([candidates(begin), candidates({"functionCall": {"args": {"a": 1}}})])
    (other,) = gemini.calls([candidates(begin), candidates({"functionCall": {"args": {"a": 2}}})])
    assert same.arguments == {"a": 1}
    assert isinstance(other.arguments, list)


def test_two_open_calls_are_told_apart_by_id() -> None:
    """A piece belongs to the open call with its id."""
    heads: list[Any] = [{"functionCall": {"id": key, "name": "add", "willContinue": True}} for key in "xy"]
    rest: list[Any] = [
        {"functionCall": {"id": key, "partialArgs": [piece("$.a", numberValue=place)]}}
        for place, key in enumerate("yx")
    ]
    found = gemini.calls([candidates(*heads), candidates(*rest)])
    assert [(call.id, call.arguments) for call in found] == [("x", {"a": 1}), ("y", {"a": 0})]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("STOP", "STOP"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
    ],
)
def test_the_finish_reason(finish: str, reason: str) -> None:
    """What was cut off and what was withheld is refused; others keep the provider's word."""
    reply = gemini_reply(TWO)
    reply["candidates"][0]["finishReason"] = finish
    assert {call.finish_reason for call in gemini.calls(reply)} == {reason}


def test_what_the_provider_could_not_read_is_an_error() -> None:
    """A malformed call comes with no part at all: the agent is told instead of ending in silence."""
    why = "Malformed function call: print(default_api.add(a=1"
    reply = candidates(finish="MALFORMED_FUNCTION_CALL", finishMessage=why)
    assert gemini.calls(reply).error == ReplyError(why, "MALFORMED_FUNCTION_CALL")
    assert gemini.calls([*gemini_chunks(TWO)[:1], reply]).error == ReplyError(why, "MALFORMED_FUNCTION_CALL")
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}
    assert gemini.calls(blocked).error == ReplyError("The prompt was blocked", "SAFETY")
    assert gemini.calls(candidates(finish="SAFETY")).error == ReplyError("The provider withheld the reply", "SAFETY")
    quota = {"error": {"code": 429, "message": "Too many", "status": "RESOURCE_EXHAUSTED"}}
    assert gemini.calls(quota).error == ReplyError("Too many", "RESOURCE_EXHAUSTED", "429")


def test_forms_of_a_reply() -> None:
    """A content, its parts, and the list of its calls are read as well; of several candidates the first."""
    reply = gemini_reply(TWO)
    content = reply["candidates"][0]["content"]
    asked = [part["functionCall"] for part in content["parts"]]
    second: Any = {**reply["candidates"][0], "index": 1}
    for form in (reply, content, content["parts"], asked, {"candidates": [*reply["candidates"], second]}):
        assert [call.id for call in gemini.calls(form)] == [key for key, _, _ in TWO]


def test_answers() -> None:
    """One message answers all calls: with the name that was sent, the id, and images as parts of their own."""
    tools = fake.adders()
    sent = gemini.tools(tools)[0]["function_declarations"][1]["name"]
    calls = gemini.calls(gemini_reply((("x", sent, {"path": "a"}), ("", "nö", {}))), tools)
    outcomes: list[Outcome[Any]] = [Success(["a plot", PNG]), Failure(UnknownTool("nö"))]
    first, second = gemini.messages(zip(calls, outcomes, strict=True))["parts"]
    blob = {"mime_type": "image/png", "data": base64.b64encode(PNG).decode()}
    assert first["function_response"] == {
        "id": "x",
        "name": sent,
        "response": {"output": f"a plot\n(an image, image/png, {len(PNG)} bytes)"},
        "parts": [{"inline_data": blob}],
    }
    assert (second["function_response"]["name"], list(second["function_response"]["response"])) == ("nö", ["error"])
    assert "id" not in second["function_response"]
    assert gemini.message(calls[0], Success(b"GIF89a..."))["parts"][0]["function_response"]["response"] == {
        "output": "(an image, image/gif, 9 bytes)"
    }


def test_signatures_go_back() -> None:
    """Newer models refuse a call without its signature; it is neither shown nor compared."""
    calls = gemini.calls(gemini_chunks(TWO[:1]))
    assert calls[0].wire["thought_signature"] == SIGNATURE
    assert SIGNATURE not in repr(calls[0])
    assert calls == [Call("add", {"a": 1, "b": 2}, "id0000001", finish_reason="STOP")]
    said, _ = gemini.send_back(calls)
    assert said["parts"][0]["thought_signature"] == SIGNATURE
    (odd,) = gemini.calls(candidates({"functionCall": {"name": "add"}, "thoughtSignature": object()}))
    assert "thought_signature" not in odd.wire
