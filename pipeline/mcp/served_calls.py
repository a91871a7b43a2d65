"""ServedCalls: the calls of tools that a server of MCP is asked for. They pass a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import isfinite
from typing import Any, Final

from returns.result import Failure

from ..call import Call, Outcome, ResolvedCall, is_success
from ..call_state import StateKey
from ..compose import Pipeline
from ..errors import Crashed
from ..messages.text import replace_surrogates
from ..privacy import make_mask
from ..telemetry import continued, follow
from ..telemetry.event_rows import PROGRESS, Event
from ..telemetry.logs import log_failure
from .jsonrpc import Message
from .result_blocks import make_result
from .served_tools import ServedTools

# For the tool: the `ServerRequestContext` of the package ``mcp``, to ask the client, or to log to it.
REQUEST: Final[StateKey[Any]] = StateKey("toolcall-toolcall_pipeline.mcp-request")
_FIRST_MODERN: Final = "2026"
_NO_PARENT: AbstractContextManager[None] = nullcontext()


class _OddParams(dict[str, Any]):
    """The params of a request whose arguments are not an object: the SDK would refuse it before the pipeline."""

    arguments: Any = None


class ServedCalls:
    """Runs calls, and reports their progress.

    Args:
        pipeline: Runs them. It has to be open, if it has to be opened.
        tools: The tools of its registries.
        deps: The ``deps`` of each call.
        read_principal: Returns who asks; "" without a principal.
    """

    def __init__(
        self, pipeline: Pipeline, tools: ServedTools, *, deps: object, read_principal: Callable[[], str]
    ) -> None:
        self._pipeline, self._tools = pipeline, tools
        self._deps, self._read_principal = deps, read_principal

    async def call_tool(self, context: Any, params: Any) -> Message:
        """Run the call in a request.

        Args:
            context: The `ServerRequestContext`.
            params: The params as the SDK read them.

        Returns:
            The result. A failure of any kind is one too, with ``isError`` and its kind in ``_meta``.
        """
        name, tool = self._tools.find(params.name)
        sent = context.params
        arguments = sent.arguments if type(sent) is _OddParams else params.arguments
        principal = "" if context.request is None else self._read_principal()
        state: Any = {REQUEST: context}
        call = Call(name, arguments, str(context.request_id), principal, self._deps, state=state)
        run = self._run_told if (tool is None or tool.context) and _wants_progress(context) else self._run
        if context.meta:
            with _read_parent(context.meta):
                outcome = await run(call, context)
        else:
            outcome = await run(call, context)
        if tool is None and is_success(outcome):
            resolved = self._pipeline.resolve(call)  # by an alias, or a form of the name that the pipeline accepts
            tool = resolved.tool if isinstance(resolved, ResolvedCall) else None
        result = make_result(outcome, None if tool is None else self._tools.find_form(tool), name, call)
        return complete(result) if is_modern(context) else result

    async def _run(self, call: Call, _context: Any) -> Outcome:
        try:
            return await self._pipeline(call)
        except SystemExit as exc:  # no pipeline may catch it, and a tool that exits must not end the server
            return self._crash(call, exc)

    def _crash(self, call: Call, exc: BaseException) -> Outcome:
        error, tool = Crashed(exc), self._pipeline.find(call.name)
        log_failure(call, tool, error, make_mask(call, tool))
        return Failure(error)

    async def _run_told(self, call: Call, context: Any) -> Outcome:
        """Run a call, and report its progress to its client. By the specification each report must be larger."""
        told = float("-inf")

        async def tell(event: Event) -> None:
            nonlocal told
            if event.name != PROGRESS:
                return
            done, total = _read_number(event.data["done"]), _read_number(event.data["total"])
            if done is None or done <= told:
                return
            told = done
            message = replace_surrogates(str(event.data["message"] or ""))
            await context.session.report_progress(done, total, message or None)

        try:
            return await follow(self._pipeline, call, tell, content=False)
        except* SystemExit as group:
            exits = group
        return self._crash(call, exits.exceptions[0])


def is_modern(context: Any) -> bool:
    """Whether a request is of a version without a handshake. They are named by their dates."""
    version: str = context.protocol_version
    return version >= _FIRST_MODERN


def complete(result: Message) -> Message:
    """The result with the mark that the versions without a handshake demand."""
    return {"resultType": "complete", **result}


def with_odd_arguments(context: Any) -> Any:
    """The context of a request with arguments of any type in a form that the SDK lets pass, for `call_tool`.

    A model writes arguments as JSON text, or as something else, and gets the error; its client made no mistake.
    """
    params = context.params
    if not params or type(arguments := params.get("arguments")) is dict or arguments is None:
        return context
    odd = _OddParams(params, arguments={})
    odd.arguments = arguments
    return replace(context, params=odd)


def _wants_progress(context: Any) -> bool:
    """Whether the client has asked for progress. A client in the same process sends no token."""
    if context.meta and "progress_token" in context.meta:
        return True
    channel = getattr(context.session, "_request_outbound", None)
    return getattr(getattr(channel, "transport", None), "kind", "") == "direct"


def _read_parent(meta: Mapping[str, Any]) -> AbstractContextManager[None]:
    if not isinstance(meta.get("traceparent"), str):
        return _NO_PARENT
    return continued({key: value for key, value in meta.items() if isinstance(value, str)})


def _read_number(value: object) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value) else None
