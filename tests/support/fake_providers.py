"""A model provider on this machine that speaks the wire formats of OpenAI and Anthropic and gives fixed replies.

It refuses requests that the real ones refuse, with status 400. Replies are whole dicts. A client that asks for a
stream gets the same reply as server-sent events, with argument text in pieces and parallel calls interleaved.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import zip_longest
from types import TracebackType
from typing import Any, Self, TypeAlias

from toolcall_pipeline import Tool, ToolRegistry

Json: TypeAlias = dict[str, Any]
USAGE = {"input_tokens": 1, "output_tokens": 1}


class FakeProvider:
    """A server that lives as long as its ``with`` block.

    Args:
        replies: Each request gets the first one that is left in the format of its path.
    """

    def __init__(self, *replies: Json) -> None:
        self.requests: list[Json] = []  # the bodies of the requests
        self.replies = list(replies)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False  # so that closing waits for them
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, body: Json) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        self.requests.append(body)
        refuse, stream, marker = FORMATS[path]
        reply = next((each for each in self.replies if marker in each.items()), None)
        why = refuse(body) or ("" if reply else "no reply is left")
        if why or reply is None:
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": why}}
            return 400, "application/json", json.dumps(error).encode()
        self.replies.remove(reply)
        if not body.get("stream"):
            return 200, "application/json", json.dumps(reply).encode()
        done = "data: [DONE]\n\n" if path.endswith("completions") else ""
        return 200, "text/event-stream", ("".join(map(sse, stream(reply))) + done).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, content_type, answered = answer(self.path, body)
                self.send_response(status)
                self.send_header("content-type", content_type)
                self.send_header("content-length", str(len(answered)))
                self.end_headers()
                self.wfile.write(answered)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its own name
                """Keep the output of tests clean."""

        return Handler


def sse(event: Json) -> str:
    """One server-sent event."""
    head = f"event: {event['type']}\n" if "type" in event else ""
    return f"{head}data: {json.dumps(event)}\n\n"


def pieces(text: str, size: int = 3) -> list[str]:
    """A text cut as a stream cuts it."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def interleaved(streams: Sequence[Sequence[Json]]) -> list[Json]:
    """The items of the streams by turns."""
    return [each for turn in zip_longest(*streams) for each in turn if each is not None]


# --- OpenAI, chat completions ------------------------------------------------------------------------------------
def completion(*calls: tuple[str, str, str], text: str | None = None, finish: str | None = None) -> Json:
    """A chat completion with calls (id, name, arguments), or with a text."""
    asked = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}
        for key, name, arguments in calls
    ]
    said = {"role": "assistant", "content": text, "refusal": None, **({"tool_calls": asked} if asked else {})}
    choice = {
        "index": 0,
        "message": said,
        "finish_reason": finish or ("tool_calls" if asked else "stop"),
        "logprobs": None,
    }
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "fake", "choices": [choice]}


def chunk(*choices: Json) -> Json:
    """A chat completion chunk."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "fake",
        "choices": [*choices],
    }


def delta(finish: str | None = None, **fields: Any) -> Json:
    """A chunk with this delta for the first choice."""
    return chunk({"index": 0, "delta": fields, "finish_reason": finish})


def chat_chunks(reply: Json) -> Iterator[Json]:
    """The chunks of a completion."""
    choice = reply["choices"][0]
    yield delta(role="assistant", content="")
    for piece in pieces(choice["message"]["content"] or ""):
        yield delta(content=piece)
    streams: list[list[Json]] = []
    for index, call in enumerate(choice["message"].get("tool_calls", ())):
        head = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
        tail = [{"index": index, "function": {"arguments": piece}} for piece in pieces(call["function"]["arguments"])]
        streams.append([head, *tail])
    for each in interleaved(streams):
        yield delta(tool_calls=[each])
    yield delta(choice["finish_reason"])
    yield chunk()  # as with stream_options: usage alone


def refuse_chat(body: Json) -> str | None:
    """Why a chat request is refused: names, schemas, or a call without an answer right after it; None: it is not."""
    functions = [each["function"] for each in body.get("tools", ())]
    wanted: set[str] = set()
    for said in body["messages"]:
        if said["role"] == "tool":
            if said["tool_call_id"] not in wanted or not isinstance(said["content"], str) or not said["content"]:
                return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            wanted.remove(said["tool_call_id"])
        elif wanted:
            break
        wanted |= {each["id"] for each in said.get("tool_calls", ())}
    return f"these tool_call_ids have no response: {wanted}" if wanted else refuse_tools(functions, "parameters", 64)


def refuse_tools(given: Sequence[Json], schema: str, longest: int) -> str | None:
    """Why definitions are refused by any provider; None: they are not."""
    for each in given:
        if not re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{longest}}}", each["name"]):
            return f"the name {each['name']!r} does not match the pattern"
        if each[schema].get("type") != "object" or "properties" not in each[schema]:
            return f"{each['name']}: object schema missing properties"
    return None


# --- OpenAI, Responses -------------------------------------------------------------------------------------------
def response(*calls: tuple[str, str, str], text: str | None = None, **fields: Any) -> Json:
    """A response with calls (id, name, arguments), or with a text."""
    output: list[Json] = [
        {
            "type": "function_call",
            "id": f"fc_{place}",
            "call_id": key,
            "name": name,
            "arguments": arguments,
            "status": "completed",
        }
        for place, (key, name, arguments) in enumerate(calls)
    ]
    if text is not None:
        content: list[Json] = [{"type": "output_text", "text": text, "annotations": []}]
        said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        output.append(said)
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "fake",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **fields,
    }


def response_events(reply: Json) -> list[Json]:
    """The events of a response."""
    head: Json = {**reply, "status": "in_progress", "output": []}
    events: list[Json] = [{"type": "response.created", "response": head}]
    streams: list[list[Json]] = []
    for place, item in enumerate(reply["output"]):
        about = {"output_index": place, "item_id": item["id"]}
        added = {"type": "response.output_item.added", "output_index": place}
        done = {"type": "response.output_item.done", "output_index": place, "item": item}
        if item["type"] == "function_call":
            deltas = [
                {"type": "response.function_call_arguments.delta", **about, "delta": piece}
                for piece in pieces(item["arguments"])
            ]
            whole = {
                "type": "response.function_call_arguments.done",
                **about,
                "name": item["name"],
                "arguments": item["arguments"],
            }
            started = {**item, "arguments": "", "status": "in_progress"}
            streams.append([{**added, "item": started}, *deltas, whole, done])
        else:
            text = item["content"][0]["text"]
            said: Json = {
                "type": "response.output_text.delta",
                **about,
                "content_index": 0,
                "delta": text,
                "logprobs": [],
            }
            streams.append([{**added, "item": {**item, "content": []}}, said, done])
    events += interleaved(streams)
    events.append({"type": f"response.{reply['status']}", "response": reply})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def refuse_responses(body: Json) -> str | None:
    """Why a Responses request is refused: names, schemas, or a call without an output; None: it is not."""
    asked = {each["call_id"] for each in body["input"] if each.get("type") == "function_call"}
    told = {each["call_id"] for each in body["input"] if each.get("type") == "function_call_output" and each["output"]}
    if asked != told:
        return f"No tool output found for function call {asked ^ told}"
    if any("strict" not in each for each in body.get("tools", ())):
        return "a missing strict is taken for true"
    return refuse_tools(body.get("tools", ()), "parameters", 64)


# --- Anthropic, Messages -----------------------------------------------------------------------------------------
def message(*calls: tuple[str, str, Json], text: str | None = None, stop: str | None = None) -> Json:
    """A message with a text, if there is one, and calls (id, name, input)."""
    said = [] if text is None else [{"type": "text", "text": text}]
    asked = [{"type": "tool_use", "id": key, "name": name, "input": given} for key, name, given in calls]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [*said, *asked],
        "stop_reason": stop or ("tool_use" if asked else "end_turn"),
        "stop_sequence": None,
        "usage": USAGE,
    }


def message_events(reply: Json) -> Iterator[Json]:
    """The events of a message, block after block as in this API."""
    yield {"type": "message_start", "message": {**reply, "content": [], "stop_reason": None}}
    yield {"type": "ping"}
    for index, block in enumerate(reply["content"]):
        if block["type"] == "tool_use":
            start: Json = {**block, "input": {}}
            given = json.dumps(block["input"]) if block["input"] else ""
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(given)]]
        else:
            start = {**block, "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for each in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": each}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def refuse_messages(body: Json) -> str | None:
    """Why a Messages request is refused: names, schemas, or a call without a result in the next message; None: not."""
    wanted: set[str] = set()
    for said in body["messages"]:
        blocks: list[Json] = said["content"] if isinstance(said["content"], list) else []
        told = {each["tool_use_id"] for each in blocks if each["type"] == "tool_result" and each["content"]}
        if told != wanted:
            return f"tool_use ids were found without tool_result blocks immediately after: {wanted ^ told}"
        wanted = {each["id"] for each in blocks if each["type"] == "tool_use"}
    return refuse_tools(body.get("tools", ()), "input_schema", 128)


# By path: what refuses a request, what streams a reply, and the entry by which a reply of this format is known.
FORMATS: dict[str, tuple[Any, Any, tuple[str, str]]] = {
    "/v1/chat/completions": (refuse_chat, chat_chunks, ("object", "chat.completion")),
    "/v1/responses": (refuse_responses, response_events, ("object", "response")),
    "/v1/messages": (refuse_messages, message_events, ("type", "message")),
}


# --- the conversation of the guides ------------------------------------------------------------------------------
DONE = "You wanted milk and a lamp."
NOTES_TURN: list[Json] = [  # in each format a model that reads notes.txt; the first one gets the name wrong and is told
    completion(("call_1", "read-file", '{"path": "notes.txt"}')),
    completion(("call_2", "read_file", '{"path": "notes.txt"}')),
    completion(text=DONE),
    response(("call_1", "read_file", '{"path": "notes.txt"}')),
    response(text=DONE),
    message(("toolu_1", "read_file", {"path": "notes.txt"})),
    message(text=DONE),
]


def client_environment(server: FakeProvider) -> dict[str, str]:
    """Environment variables by which the official clients find a server."""
    return {
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "none",
    }


# --- the tools that replies in tests call ------------------------------------------------------------------------
def adders() -> ToolRegistry:
    """A function tool, and a schema tool whose name no provider accepts."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def add(a: int, b: int = 0) -> int:
        """Add two numbers."""
        return a + b

    async def read(path: str) -> str:
        return f"what {path} holds"

    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tools.register(Tool.from_schema(name="fs.read", parameters=schema, handler=read, effect="read"))
    return tools
