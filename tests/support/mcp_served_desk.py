"""The tools that the tests of ``toolcall serve`` serve."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

import anyio
from opentelemetry.trace import format_trace_id, get_current_span

from toolcall_pipeline import Call, Handler, Outcome, Pipeline, ToolContext, ToolFailed, ToolRegistry
from toolcall_pipeline.mcp import REQUEST, add_server
from toolcall_pipeline.middlewares import standard

print("a line from the import")  # noqa: T201  # stdout belongs to the protocol
tools = ToolRegistry()
cancelled: list[str] = []
begun: list[str] = []
let_go: set[int] = set()


@dataclass
class Sum:
    """What `add` returns."""

    total: int


@tools.tool(effect="read")
async def add(x: int, y: int) -> Sum:
    """Add two numbers, and print in each way there is."""
    print("a line from the tool")  # noqa: T201  # as above
    os.write(1, b"bytes from the tool\n")
    return Sum(x + y)


@tools.tool(effect="read")
async def fail() -> str:
    """Fail in words of its own."""
    raise ToolFailed("It is broken.", suggestion="Do without it.")


@tools.tool
def leave() -> str:
    """Exit."""
    sys.exit(3)


@tools.tool
def block() -> str:
    """Hold a thread for longer than anybody waits."""
    time.sleep(600)
    return ""


@tools.tool(context=True)
async def work(context: ToolContext, steps: int) -> str:
    """Tell of each step."""
    for step in range(steps):
        context.progress(step, steps, f"step {step}")
        await anyio.sleep(0.01)  # that of a process, which the test cannot move
    return "done"


@tools.tool(context=True)
async def hang(context: ToolContext) -> str:
    """Say that it began, and never end; note a cancellation."""
    context.progress(0, 1, "hanging")
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        cancelled.append("hang")
        raise
    return ""


@tools.tool(effect="read")
async def list_cancelled() -> list[str]:
    """What was cancelled."""
    return cancelled


@tools.tool(effect="read")
async def show_trace() -> str:
    """The id of the trace that the call belongs to."""
    return format_trace_id(get_current_span().get_span_context().trace_id)


@tools.tool(context=True)
async def order(context: ToolContext, item: str) -> str:
    """Begin an order, ask for the size and the colour, and place it."""
    begun.append(item)
    size = await elicit(context, "Which size?", "size")
    colour = await elicit(context, "Which colour?", "colour")
    return f"{item}, {size}, {colour}, begun {begun.count(item)}"


@tools.tool(context=True)
async def ask_all(context: ToolContext) -> list[str]:
    """Ask a person, a model and the client at once."""
    session = context.get_state(REQUEST).session
    answers: dict[str, str] = {}

    async def ask_person() -> None:
        answers["person"] = await elicit(context, "Which size?", "size")

    async def ask_model() -> None:
        types: Any = import_module("mcp_types")
        said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Greet."))
        related = context.get_state(REQUEST).request_id
        answer = await session.create_message([said], max_tokens=10, related_request_id=related)
        answers["model"] = answer.content.text

    async def ask_client() -> None:
        answers["client"] = str((await session.list_roots()).roots[0].uri)

    async with anyio.create_task_group() as group:
        for each in (ask_person, ask_model, ask_client):
            group.start_soon(each)
    return [answers[each] for each in ("person", "model", "client")]


async def elicit(context: ToolContext, message: str, field: str) -> str:
    """As the guide does it."""
    request = context.get_state(REQUEST)
    schema = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
    answer = await request.session.elicit_form(message, schema, related_request_id=request.request_id)
    return str(answer.content[field]) if answer.action == "accept" else str(answer.action)


@tools.tool(context=True)
async def confirm(context: ToolContext) -> Any:
    """Ask with a result of the package, as the versions without a handshake have it."""
    params = context.get_state(REQUEST).params
    answer = params.get("inputResponses", {}).get("sure")
    if answer is not None and params["requestState"] == "asked once":
        return f"{answer['action']} {answer['content']}"
    types: Any = import_module("mcp_types")
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    form = types.ElicitRequestFormParams(message="Are you sure?", requested_schema=schema)
    asked = {"sure": types.ElicitRequest(params=form)}
    return types.InputRequiredResult(input_requests=asked, request_state="asked once")


@tools.tool(context=True)
async def wait_for(context: ToolContext, number: int) -> str:
    """Note the begin, and end once it is let go."""
    begun.append(f"wait {number}")
    while number not in let_go:  # noqa: ASYNC110  # another process says so
        await anyio.sleep(0.01)
    return f"waited for {number} as {context.call_id}, begun {begun.count(f'wait {number}')}"


@tools.tool(effect="read")
async def let(number: int) -> str:
    """Let a call go."""
    let_go.add(number)
    return "let go"


@tools.tool
async def close(name: str) -> str:
    """Close a tool."""
    tools.disable(name)
    return "closed"


@tools.tool
async def open_again(name: str) -> str:
    """Open it again."""
    tools.enable(name)
    return "open"


class Opened:
    """A stage that has to be opened, and says when it is closed."""

    def __init__(self) -> None:
        self.is_open = False

    async def __aenter__(self) -> Self:
        self.is_open = True
        return self

    async def __aexit__(self, *_exc: object) -> None:
        print("the pipeline is closed", file=sys.stderr)  # noqa: T201  # the test reads it

    async def __call__(self, call: Call, call_next: Handler[Call]) -> Outcome:
        assert self.is_open
        return await call_next(call)


def make() -> Pipeline:
    """The pipeline of this registry, with a stage that has to be opened."""
    return standard(tools).before("resolve", Opened())


@asynccontextmanager
async def serve_again(command: list[str]) -> AsyncGenerator[Any, None]:
    """A server whose tools are those of another one."""
    from toolcall_pipeline.mcp import make_server

    registry = ToolRegistry()
    async with add_server(registry, command, trust=True, text="tell"):
        yield make_server(standard(registry, timeout=30))
