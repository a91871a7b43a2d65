"""The subjects, where each does more or less than this pipeline, and why something is cheaper than it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

OURS = "ours"


@attrs.frozen
class Peer:
    """A framework.

    Args:
        label: Its name in the table.
        more: Features that this pipeline does not have.
        less: Work that it leaves to its user.
    """

    label: str
    more: str = ""
    less: str = ""


PEERS: Mapping[str, Peer] = {
    OURS: Peer("toolcall-pipeline"),
    "adk": Peer(
        "Google ADK",
        "agents, sessions, live audio, authentication and confirmation of calls. Its plugin gives the model a check "
        "list for another attempt",
        "A value is not checked against its type: a body began with `two` for an integer. Unless the plugin is used, "
        "an exception of a tool ends the run; with it, the model reads the text of the exception. Nothing is retried",
    ),
    "agent_framework": Peer(
        "MS Agent Framework",
        "agents, workflows, limits for calls and time in a run, security labels",
        "The model is told neither which argument is wrong nor which tools there are. Nothing is retried, and a "
        "middleware for that repeats payments, for it knows nothing of effects",
    ),
    "fastmcp": Peer(
        "FastMCP",
        "a server with authentication, transports, resources and prompts, and clients for it",
        "The text of every exception goes to the client by default (`mask_error_details=True` hides it). Its "
        "ErrorHandlingMiddleware makes protocol errors of mistakes, which a client raises and need not show to a "
        "model. RetryMiddleware repeats what has taken effect",
    ),
    "langchain": Peer(
        "LangChain",
        "agents, checkpoints, parallel graphs, approval of calls, integrations for most services",
        "An exception of a tool ends the run, unless ToolErrorMiddleware is there. ToolRetryMiddleware repeats what "
        "has taken effect, unless `tools=` or `retry_on=` leave it out, and repeats a crash. No spans of OpenTelemetry "
        "without another package, which records arguments by default",
    ),
    "mcp": Peer(
        "MCP SDK",
        "the protocol itself: servers, clients, transports, sampling, authentication. It is the only other one that "
        "reads JSON text where an object is due",
        "A server's model is told the text of the validation library, with its URL, and no names of tools. "
        "Nothing is retried",
    ),
    "openai_agents": Peer(
        "OpenAI Agents SDK",
        "agents, handoffs, guardrails, sessions, its own tracing with a hosted viewer",
        "An unknown name ends the run by default. Of a bad parameter the model is told no more than of a crash. "
        "Nothing is retried. Arguments are in the trace by default",
    ),
    "pydantic_ai": Peer(
        "Pydantic AI",
        "agents, typed results, toolsets, deferred and approved calls, durable execution",
        "An exception of a tool ends the run, and so does the second mistake of one tool (`retries=1`). A hook "
        "that tries again knows nothing of effects. Arguments, and texts of exceptions, are in the trace by default",
    ),
    "semantic_kernel": Peer(
        "Semantic Kernel",
        "planners, prompt templates, plugins from OpenAPI, memory connectors",
        "The model reads the text of every exception, and the trace holds it. Nothing is retried, and a filter that "
        "does so knows nothing of effects",
    ),
    "strands": Peer(
        "Strands Agents",
        "agents, several agents together, sessions, metrics of a run",
        "The model reads the text of every exception; so does the trace, with the arguments. A hook that asks for "
        "another attempt knows nothing of effects",
    ),
}

# Each says why the figure of another one is lower; its faults stand beside it.
_BARE = "it looks up, validates and runs, no more: no retry, no effects, no repairs, and a fixed text"
_SPANS = (
    "it exports one span or none; ours exports one for the call, one for each attempt and one for each stage, or the "
    "first two with `Trace(stages=False)`"
)
REASONS: Mapping[str, str] = {
    "success": _BARE,
    "unknown_name": "it sends a fixed text; ours looks for near names, and lists the tools that may be called",
    "bad_parameter": "it sends the text of the validation library, or a fixed one, and a server is given arguments "
    "that are read already; ours reads them, tries to repair the value, and says what each parameter has to be",
    "json_text": "it refuses the call, or parses any text before it validates, and a server is given arguments that "
    "are read already; ours reads them, validates, looks for the one safe way to read the text, and validates again",
    "raising_tool": "it sends a fixed text, or lets the exception through; ours finds its kind in the table of "
    "exceptions",
    "503_once": "it makes one attempt; ours makes two",
    "lost_answer": "it keeps no account of effects; ours notes when a tool that changes something begins, and says "
    "that it may have taken effect",
    "at_once": _BARE,
    "traced": _SPANS,
    "traced_crash": _SPANS,
}
