"""The kinds of replies that providers send: of each an example, and what comes out of it.

A row is the adapter, the reply, and what is expected of `Calls`: the names of its calls, the beginning of its text, the
type of its error, its finish reason, whether the model refused, and the items that somebody has to handle. The guide of
the adapters has those of which a reader has to handle something; `table()` writes them.
"""
# ruff: noqa: E501  # a row is a line

from __future__ import annotations

from types import ModuleType
from typing import Any, TypeAlias, cast

import attrs

from toolcall_pipeline.adapters import anthropic, bedrock, gemini, mistral, ollama, openai

Json: TypeAlias = dict[str, Any]


@attrs.frozen
class Kind:
    """A kind of reply and what comes out of it."""

    what: str
    adapter: ModuleType
    reply: Any
    calls: tuple[str, ...] = ()
    text: str = ""
    error: str = ""
    finish: str | None = None
    refused: bool = False
    unhandled: tuple[str, ...] = ()

    @property
    def provider(self) -> str:
        """The name of the adapter, and of the format if it has two."""
        reply: Any = self.reply
        is_response = isinstance(reply, dict) and cast("dict[str, Any]", reply).get("object") == "response"
        return "openai, Responses" if is_response else self.adapter.__name__.rpartition(".")[2]


# --- chat completions ------------------------------------------------------------------------------------------------
ASKED: Json = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
CUSTOM: Json = {"id": "c2", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}


def chat(finish: str = "stop", /, **message: Any) -> Json:
    """A chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    return {"id": "r", "object": "chat.completion", "choices": [choice]}


def chunks(finish: str, *deltas: Json) -> list[Json]:
    """The chunks of a chat completion."""
    each = [{"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return [*each, {"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]


CHAT = [
    Kind("a call", openai, chat("tool_calls", tool_calls=[ASKED]), ("add",), finish="tool_calls"),
    Kind("a call of a custom tool", openai, chat("tool_calls", tool_calls=[CUSTOM]), ("sql",), finish="tool_calls"),
    Kind("text", openai, chat(content="Hello."), text="Hello.", finish="stop"),
    Kind("text, cut off", openai, chat("length", content="Hel"), text="Hel", finish="length"),
    Kind("a call, cut off", openai, chat("length", tool_calls=[ASKED]), ("add",), finish="length"),
    Kind("a refusal", openai, chat(refusal="I cannot."), error="refusal", finish="stop", refused=True),
    Kind("a refusal, streamed", openai, chunks("stop", {"refusal": "I can"}, {"refusal": "not."}), error="refusal", finish="stop", refused=True),
    Kind("withheld", openai, chat("content_filter"), error="content_filter", finish="content_filter"),
    Kind("withheld, streamed", openai, chunks("content_filter", {"content": "Hel"}), text="Hel", error="content_filter", finish="content_filter"),
    Kind("an answer in sound", openai, chat(audio={"id": "a", "data": "", "transcript": "Hello."}), text="Hello.", finish="stop", unhandled=("audio",)),
    Kind("images", openai, chat(images=[{"type": "image_url"}]), error="images", finish="stop", unhandled=("images",)),
    Kind("a part of another type", openai, chat(content=[{"type": "hologram"}]), error="hologram", finish="stop", unhandled=("hologram",)),
    Kind("no choice", openai, {"id": "r", "object": "chat.completion", "choices": []}, error="empty"),
    Kind("nothing", openai, chat(content=""), error="empty", finish="stop"),
    Kind("nothing, cut off", openai, chat("length"), error="incomplete", finish="length"),
    Kind("an end by an error", openai, chat("error", content="Hel"), text="Hel", error="error", finish="error"),
]  # fmt: skip


# --- the Responses API -----------------------------------------------------------------------------------------------
def response(*items: Json, status: str = "completed", **fields: Any) -> Json:
    """A response."""
    return {"id": "r", "object": "response", "status": status, "output": [*items], **fields}


def said(text: str) -> Json:
    """An item of text."""
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}  # fmt: skip


CALL: Json = {"type": "function_call", "id": "f", "call_id": "c1", "name": "add", "arguments": "{}"}
NO: Json = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}]}
WAITING = (
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "mcp_approval_request",
    "hologram_call",
)
DONE = ("web_search_call", "file_search_call", "code_interpreter_call", "mcp_call", "mcp_list_tools")
RESPONSES = [
    Kind("a call", openai, response(CALL), ("add",), finish="completed"),
    Kind("a call behind reasoning", openai, response({"type": "reasoning", "id": "s", "summary": []}, CALL), ("add",), finish="completed"),
    Kind("text", openai, response(said("Hello.")), text="Hello.", finish="completed"),
    Kind("a refusal", openai, response(NO), error="refusal", finish="completed", refused=True),
    Kind("withheld", openai, response(status="incomplete", incomplete_details={"reason": "content_filter"}), error="content_filter", finish="content_filter"),
    Kind("a response that failed", openai, response(status="failed", error={"code": "server_error", "message": "no", "type": "server_error"}), error="server_error", finish="failed"),
    *(Kind(f"`{kind}`", openai, response({"type": kind, "id": "i"}), error=kind, finish="completed", unhandled=(kind,)) for kind in WAITING),
    Kind("a call beside `computer_call`", openai, response(CALL, {"type": "computer_call", "id": "i"}), ("add",), error="computer_call", finish="completed", unhandled=("computer_call",)),
    Kind("`shell_call` that the provider ran", openai, response({"type": "shell_call", "id": "i"}, {"type": "shell_call_output", "id": "j"}, said("Done.")), text="Done.", finish="completed"),
    Kind("an image", openai, response({"type": "image_generation_call", "id": "i", "result": ""}, said("Here.")), text="Here.", finish="completed", unhandled=("image_generation_call",)),
    *(Kind(f"`{kind}` and text", openai, response({"type": kind, "id": "i"}, said("Found.")), text="Found.", finish="completed") for kind in DONE),
]  # fmt: skip


# --- Anthropic -------------------------------------------------------------------------------------------------------
def message(stop: str, *blocks: Json, **fields: Any) -> Json:
    """A message."""
    return {"id": "r", "type": "message", "role": "assistant", "stop_reason": stop, "content": [*blocks], **fields}


USE: Json = {"type": "tool_use", "id": "t", "name": "add", "input": {}}
SERVER: Json = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
FOUND: Json = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
HELLO: Json = {"type": "text", "text": "Hello."}
ANTHROPIC = [
    Kind("a call", anthropic, message("tool_use", USE), ("add",), finish="tool_use"),
    Kind("text", anthropic, message("end_turn", HELLO), text="Hello.", finish="end_turn"),
    Kind("thoughts and a call", anthropic, message("tool_use", {"type": "thinking", "thinking": "Hm.", "signature": "s"}, USE), ("add",), finish="tool_use"),
    Kind("a refusal", anthropic, message("refusal"), error="refusal", finish="refusal", refused=True),
    Kind("a refusal with words", anthropic, message("refusal", {"type": "text", "text": "No."}), text="No.", error="refusal", finish="refusal", refused=True),
    Kind("a paused turn", anthropic, message("pause_turn", SERVER), error="pause_turn", finish="pause_turn", unhandled=("server_tool_use", "pause_turn")),
    Kind("a tool of the provider", anthropic, message("end_turn", SERVER, FOUND, HELLO), text="Hello.", finish="end_turn"),
    Kind("a tool of the provider, without its result", anthropic, message("end_turn", SERVER), error="server_tool_use", finish="end_turn", unhandled=("server_tool_use",)),
    Kind("a call beside a tool of the provider", anthropic, message("tool_use", SERVER, USE), ("add",), finish="tool_use"),
    Kind("a file in a container", anthropic, message("end_turn", {"type": "container_upload", "file_id": "f"}), error="container_upload", finish="end_turn", unhandled=("container_upload",)),
    Kind("nothing", anthropic, message("end_turn"), error="empty", finish="end_turn"),
    Kind("a block of another type", anthropic, message("end_turn", {"type": "hologram"}), error="hologram", finish="end_turn", unhandled=("hologram",)),
    Kind("cut off", anthropic, message("max_tokens", HELLO), text="Hello.", finish="length"),
    Kind("no room left", anthropic, message("model_context_window_exceeded", HELLO), text="Hello.", finish="length"),
]  # fmt: skip


# --- Gemini ----------------------------------------------------------------------------------------------------------
def candidate(*parts: Json, finish: str = "STOP", **fields: Any) -> Json:
    """A response with one candidate."""
    return {"candidates": [{"content": {"role": "model", "parts": [*parts]}, "finishReason": finish}], **fields}


FUNCTION: Json = {"functionCall": {"name": "add", "args": {}}}
NOT_READ = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE")
KEPT_BACK = ("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "IMAGE_SAFETY")
GEMINI = [
    Kind("a call", gemini, candidate(FUNCTION), ("add",), finish="STOP"),
    Kind("text", gemini, candidate({"text": "Hello."}), text="Hello.", finish="STOP"),
    Kind("code that the provider ran", gemini, candidate({"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "1"}}, {"text": "1"}), text="1", finish="STOP"),
    Kind("an image", gemini, candidate({"inlineData": {"mimeType": "image/png", "data": ""}}), error="inlineData", finish="STOP", unhandled=("inlineData",)),
    Kind("a part of another type", gemini, candidate({"hologram": {}}), error="hologram", finish="STOP", unhandled=("hologram",)),
    Kind("a prompt that was blocked", gemini, {"promptFeedback": {"blockReason": "SAFETY"}}, error="SAFETY"),
    Kind("no candidate", gemini, {"candidates": [], "usageMetadata": {}}, error="empty"),
    Kind("nothing", gemini, candidate(), error="empty", finish="STOP"),
    Kind("another end", gemini, candidate(finish="OTHER"), error="OTHER", finish="OTHER"),
    *(Kind(f"`{reason}`", gemini, candidate(finish=reason), error=reason, finish=reason) for reason in NOT_READ),
    *(Kind(f"`{reason}`", gemini, candidate(finish=reason), error=reason, finish="content_filter") for reason in KEPT_BACK),
]  # fmt: skip


# --- Bedrock ---------------------------------------------------------------------------------------------------------
def converse(stop: str, *blocks: Json) -> Json:
    """What ``converse`` returns."""
    return {"output": {"message": {"role": "assistant", "content": [*blocks]}}, "stopReason": stop}


TOOL: Json = {"toolUse": {"toolUseId": "t", "name": "add", "input": {}}}
CITED: Json = {"citationsContent": {"content": [{"text": "Cited."}], "citations": [{"title": "t"}]}}
BEDROCK = [
    Kind("a call", bedrock, converse("tool_use", TOOL), ("add",), finish="tool_use"),
    Kind("text", bedrock, converse("end_turn", {"text": "Hello."}), text="Hello.", finish="end_turn"),
    Kind("text with citations", bedrock, converse("end_turn", CITED), text="Cited.", finish="end_turn"),
    Kind("a guardrail", bedrock, converse("guardrail_intervened", {"text": "Blocked."}), text="Blocked.", error="content_filter", finish="content_filter"),
    Kind("withheld", bedrock, converse("content_filtered"), error="content_filter", finish="content_filter"),
    Kind("a call that the provider could not read", bedrock, converse("malformed_tool_use"), error="malformed_tool_use", finish="malformed_tool_use"),
    Kind("an image", bedrock, converse("end_turn", {"image": {"format": "png"}}), error="image", finish="end_turn", unhandled=("image",)),
    Kind("a block of another type", bedrock, converse("end_turn", {"hologram": {}}), error="hologram", finish="end_turn", unhandled=("hologram",)),
    Kind("an error in a stream", bedrock, [{"throttlingException": {"message": "slow"}}], error="throttlingException"),
]  # fmt: skip
OTHERS = [
    Kind("a call", ollama, {"message": {"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": {}}}]}, "done": True, "done_reason": "stop"}, ("add",), finish="stop"),
    Kind("text and thoughts", ollama, {"message": {"role": "assistant", "content": "Hello.", "thinking": "Hm."}, "done": True, "done_reason": "stop"}, text="Hello.", finish="stop"),
    Kind("an error", ollama, {"error": "no such model"}, error="no such model"),
    Kind("a call", mistral, chat("tool_calls", tool_calls=[ASKED]), ("add",), finish="tool_calls"),
    Kind("thoughts", mistral, chat(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Hello."}]), text="Hello.", finish="stop"),
    Kind("an end by an error", mistral, chat("error"), error="error", finish="error"),
]  # fmt: skip
KINDS = [*CHAT, *RESPONSES, *ANTHROPIC, *GEMINI, *BEDROCK, *OTHERS]


def table() -> str:
    """The rows as the guide has them: replies of one adapter with the same outcome share a row, in order.

    No row is for a reply that comes out as calls or a text alone, or for what the guide says above: nothing, and a part of a
    type that nobody knows.
    """
    rows: dict[tuple[str, ...], list[str]] = {}
    for kind in KINDS:
        if not (kind.error or kind.unhandled) or kind.error == "empty" or "hologram" in kind.what + kind.error:
            continue
        named = kind.what.partition(" ")[0]  # such as `computer_call`: what comes out says it again
        cells = (kind.error, kind.finish or "", kind.unhandled)
        told = ("its name" if _code(each) == named else _code(each) for each in cells)
        rows.setdefault((kind.provider, *told), []).append(kind.what)
    lines = ["| adapter | the reply | `error.type` | `finish_reason` | `unhandled` |", "|---|---|---|---|---|"]  # fmt: skip
    lines += [f"| {' | '.join((provider, '; '.join(whats), *told))} |" for (provider, *told), whats in rows.items()]
    return "\n".join(lines)


def _code(cell: object) -> str:
    if isinstance(cell, tuple):
        return ", ".join(f"`{each}`" for each in cast("tuple[object, ...]", cell))
    return f"`{cell}`" if cell else ""
