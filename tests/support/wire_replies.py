"""Replies of providers in the shapes of their SDKs' types, whole and streamed, as plain dicts.

`tests/wire_types.py` makes objects of the SDKs of them, which checks the shapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, TypeAlias, cast

import attrs

import fake_providers as fake
from toolcall_pipeline import Tool, ToolRegistry
from toolcall_pipeline.adapters import anthropic, bedrock, gemini, mistral, ollama, openai

Json: TypeAlias = dict[str, Any]
Asked: TypeAlias = tuple[str, str, Json]  # id, name, arguments
SIGNATURE = "c2lnbmVk"  # base64, as the API sends it
TWO: tuple[Asked, Asked] = (("id0000001", "add", {"a": 1, "b": 2}), ("id0000002", "add", {"a": 3}))


# --- Gemini ------------------------------------------------------------------------------------------------------
def candidates(*parts: Json, finish: str | None = None, **fields: Any) -> Json:
    """A response, or a chunk of one."""
    candidate: Json = {"index": 0, **fields}
    if parts:
        candidate["content"] = {"role": "model", "parts": [*parts]}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-3-pro"}


def gemini_part(asked: Asked) -> Json:
    """The part of a call."""
    key, name, arguments = asked
    return {"functionCall": {"id": key, "name": name, "args": arguments}, "thoughtSignature": SIGNATURE}


def gemini_reply(calls: Sequence[Asked], text: str = "") -> Json:
    """A response with a thought, a text and calls."""
    said: list[Json] = [{"text": "Hm.", "thought": True}, {"text": text}] if text else []
    return candidates(*said, *map(gemini_part, calls), finish="STOP")


def gemini_chunks(calls: Sequence[Asked], text: str = "") -> list[Json]:
    """The chunks of a stream in which each call comes whole."""
    said = [candidates({"text": piece}) for piece in fake.pieces(text)]
    return [*said, *(candidates(gemini_part(each)) for each in calls), candidates(finish="STOP")]


def leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Each value in the arguments with its JSON path."""
    if isinstance(value, dict):
        for key, inner in cast("Json", value).items():
            yield from leaves(f"{path}.{key}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from leaves(f"{path}[{index}]", inner)
    else:
        yield path, value


def partial_args(path: str, value: Any) -> list[Json]:
    """The pieces of one value; a text comes in several."""
    if isinstance(value, str):
        cut = [{"jsonPath": path, "stringValue": piece, "willContinue": True} for piece in fake.pieces(value)]
        return [*cut, {"jsonPath": path, "stringValue": ""}]
    key = "nullValue" if value is None else "boolValue" if isinstance(value, bool) else "numberValue"
    return [{"jsonPath": path, key: "NULL_VALUE" if value is None else value}]


def gemini_partial_chunks(calls: Sequence[Asked], text: str = "") -> list[Json]:
    """The chunks of a stream of Vertex AI in which the arguments come path by path."""
    chunks = [candidates({"text": piece}) for piece in fake.pieces(text)]
    for key, name, arguments in calls:
        head: Json = {"functionCall": {"id": key, "name": name, "willContinue": True}, "thoughtSignature": SIGNATURE}
        chunks.append(candidates(head))
        for path, value in leaves("$", arguments):
            each = [{"partialArgs": [piece], "willContinue": True} for piece in partial_args(path, value)]
            chunks += [candidates({"functionCall": piece}) for piece in each]
        chunks.append(candidates({"functionCall": {}}))
    return [*chunks, candidates(finish="STOP")]


# --- Bedrock -----------------------------------------------------------------------------------------------------
def bedrock_reply(calls: Sequence[Asked], text: str = "", stop: str = "tool_use") -> Json:
    """What ``converse`` returns."""
    said: list[Json] = [{"text": text}] if text else []
    asked = [{"toolUse": {"toolUseId": key, "name": name, "input": given}} for key, name, given in calls]
    return {
        "output": {"message": {"role": "assistant", "content": [*said, *asked]}},
        "stopReason": stop,
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    }


def bedrock_events(calls: Sequence[Asked], text: str = "", stop: str = "tool_use") -> list[Json]:
    """The events of ``converse_stream``."""
    events: list[Json] = [{"messageStart": {"role": "assistant"}}]
    events += [{"contentBlockDelta": {"delta": {"text": each}, "contentBlockIndex": 0}} for each in fake.pieces(text)]
    for place, (key, name, given) in enumerate(calls, 1):
        start = {"toolUse": {"toolUseId": key, "name": name}}
        events.append({"contentBlockStart": {"start": start, "contentBlockIndex": place}})
        for piece in fake.pieces(json.dumps(given)) if given else []:
            delta = {"toolUse": {"input": piece}}
            events.append({"contentBlockDelta": {"delta": delta, "contentBlockIndex": place}})
        events.append({"contentBlockStop": {"contentBlockIndex": place}})
    usage = {"usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}, "metrics": {"latencyMs": 1}}
    return [*events, {"messageStop": {"stopReason": stop}}, {"metadata": usage}]


# --- Ollama ------------------------------------------------------------------------------------------------------
def ollama_reply(calls: Sequence[Asked], text: str = "", reason: str = "stop") -> Json:
    """A reply of ``/api/chat``, which has no ids."""
    asked = [{"function": {"name": name, "arguments": given}} for _, name, given in calls]
    said: Json = {"role": "assistant", "content": text, **({"tool_calls": asked} if asked else {})}
    return {
        "model": "qwen3",
        "created_at": "2026-11-22T00:00:00Z",
        "message": said,
        "done": True,
        "done_reason": reason,
    }


def ollama_chunks(calls: Sequence[Asked], text: str = "") -> list[Json]:
    """The replies of a stream."""
    said = [{**ollama_reply((), piece), "done": False, "done_reason": None} for piece in fake.pieces(text)]
    asked = [{**ollama_reply((each,)), "done": False, "done_reason": None} for each in calls]
    return [*said, *asked, ollama_reply(())]


# --- the formats of OpenAI, Mistral and Anthropic ----------------------------------------------------------------
def as_texts(calls: Sequence[Asked]) -> list[tuple[str, str, str]]:
    """The calls with their arguments as JSON text."""
    return [(key, name, json.dumps(given)) for key, name, given in calls]


def chat_reply(calls: Sequence[Asked], text: str = "") -> Json:
    """A chat completion."""
    return fake.completion(*as_texts(calls), text=text)


def chat_chunks(calls: Sequence[Asked], text: str = "") -> list[Json]:
    """The chunks of a chat completion."""
    return list(fake.chat_chunks(chat_reply(calls, text)))


def response_reply(calls: Sequence[Asked], text: str = "") -> Json:
    """A response."""
    return fake.response(*as_texts(calls), text=text or None)


def response_events(calls: Sequence[Asked], text: str = "") -> list[Json]:
    """The events of a response."""
    return fake.response_events(response_reply(calls, text))


def mistral_events(calls: Sequence[Asked], text: str = "") -> list[Json]:
    """The events of Mistral's stream, in which each call comes whole, here without ids as the package marks them."""
    said = [fake.delta(content=piece) for piece in fake.pieces(text)]
    asked = [
        fake.delta(tool_calls=[{"id": "null", "index": 0, "function": {"name": name, "arguments": json.dumps(given)}}])
        for _, name, given in calls
    ]
    return [{"data": each} for each in [*said, *asked, fake.delta("tool_calls")]]


def message_reply(calls: Sequence[Asked], text: str = "") -> Json:
    """Anthropic's message."""
    return fake.message(*calls, text=text or None)


def message_events(calls: Sequence[Asked], text: str = "") -> list[Json]:
    """The events of Anthropic's message."""
    return list(fake.message_events(message_reply(calls, text)))


@attrs.frozen
class Wire:
    """A wire format: its adapter, and what makes a reply of calls and a text."""

    adapter: ModuleType
    reply: Callable[..., Json]
    chunks: Callable[..., list[Json]]


WIRES: dict[str, Wire] = {
    "openai": Wire(openai, chat_reply, chat_chunks),
    "responses": Wire(openai, response_reply, response_events),
    "anthropic": Wire(anthropic, message_reply, message_events),
    "gemini": Wire(gemini, gemini_reply, gemini_chunks),
    "gemini-partial": Wire(gemini, gemini_reply, gemini_partial_chunks),
    "bedrock": Wire(bedrock, bedrock_reply, bedrock_events),
    "ollama": Wire(ollama, ollama_reply, ollama_chunks),
    "mistral": Wire(mistral, chat_reply, mistral_events),
}


def recording(kept: list[Json]) -> ToolRegistry:
    """A registry with the tool ``add``, which takes any object and keeps it: even half of the arguments would do."""
    tools = ToolRegistry()

    async def add(**given: Any) -> str:
        kept.append(given)
        return "kept"

    parameters: Json = {"type": "object", "properties": {}, "additionalProperties": True}
    tools.register(
        Tool.from_schema(name="add", description="Keep.", parameters=parameters, handler=add, effect="mutating")
    )
    return tools
