"""ServedCalls: the calls of tools that a server of MCP is asked for. They pass a pipeline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any, Final

import attrs

from ..engine.call import Call, Outcome, ResolvedCall, is_failure, is_success
from ..engine.call_state import StateKey
from ..engine.compose import Pipeline
from ..engine.errors import NeedsUserInput
from ..messages import render
from ..messages.text import replace_surrogates
from ..messages.wording import Wording
from ..stores import StoreError
from ..telemetry import continued, follow
from ..telemetry.attributes import OF_CALL
from ..telemetry.event_rows import PROGRESS, Event
from ..tools import Tool
from .asking import ASKED, OURS, AskingCall, let_ask, serve_end
from .asking_person import Question, ask_person, find_approvals, takes_forms
from .client_wordings import ClientWordings
from .jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, REPEATED, Message, name_request, write_call_id
from .kept_resources import LONGEST, KeptResources, read_handle
from .known_clients import KnownClients
from .result_blocks import KIND, make_result
from .served_tools import ServedTools

# For the tool: the `ServerRequestContext` of the package ``mcp``, to ask the client, or to log to it.
REQUEST: Final[StateKey[Any]] = StateKey("toolcall-pipeline.mcp-request")
_FIRST_MODERN: Final = "2026"
_LACKING: Final = -32021  # the code of an error: a capability of the client that the tool needs
_STATE: Final = "requestState"  # of a request that brings the answers to questions
# By the versions without a handshake: how long a client may keep it (ms), and for whom.
PRIVATE: Final[Mapping[str, Any]] = {"ttlMs": 0, "cacheScope": "private"}
_NO_PARENT: AbstractContextManager[None] = nullcontext()


class _OddParams(dict[str, Any]):
    """The params of a request whose arguments are not an object: the SDK would refuse it before the pipeline."""

    arguments: Any = None


class ServedCalls:
    """Runs calls, and reports their progress."""

    def __init__(
        self,
        pipeline: Pipeline,
        tools: ServedTools,
        clients: KnownClients,
        *,
        deps: object,
        read_principal: Callable[[], str],
        error: Callable[..., Exception],
        wordings: Mapping[str, Wording] | None = None,
    ) -> None:
        self._pipeline, self._tools, self._clients = serve_end(pipeline), tools, clients
        self._wordings = ClientWordings(wordings, self._pipeline.wording)
        self._approvals = find_approvals(pipeline)
        self._resources = KeptResources(pipeline)
        self._deps, self._read_principal = deps, read_principal
        self._error = error
        self._running: set[tuple[str, str, str]] = set()  # conversation, reply and id

    async def call_tool(self, context: Any, params: Any) -> Message:
        """Run the call in a request, or go on with the one whose questions it answers.

        Returns:
            The result. A failure of any kind is one too, with ``isError`` and its kind in ``_meta``.

        Raises:
            Exception: An error of the protocol: the id belongs to a call that runs, or the state of the request that of
                none that waits.
        """
        name, tool = self._tools.find(params.name)
        sent = context.params
        call = self._sign(context, name, sent.arguments if type(sent) is _OddParams else params.arguments)
        key = call.conversation, call.reply, call.id
        if key in self._running:  # not of a client without a session, whose ids say nothing
            raise self._error(INVALID_REQUEST, REPEATED)
        self._running.add(key)
        try:
            return await self._answer(context, call, tool)
        finally:
            self._running.discard(key)

    async def read_resource(self, context: Any, params: Any) -> Message:
        """Read a kept result as a whole. What refuses the tool that reads it refuses this: it is called first.

        Returns:
            The result of ``resources/read``.

        Raises:
            Exception: An error of the protocol: nothing is kept under this URI for this client, any more; a stage
                refused it; the store gave no answer.
        """
        uri: str = params.uri
        call = self._sign(context, self._resources.reader, {"handle": read_handle(uri) or "", "length": 1})
        outcome = await self._run(call, context)
        try:
            found = await self._resources.read(call, uri) if is_success(outcome) else None
        except StoreError:
            raise self._error(INTERNAL_ERROR, "The kept results cannot be read now.", {"uri": uri}) from None
        if found is not None:
            return complete({**found, **PRIVATE}) if is_modern(context) else found
        if is_failure(outcome) and (error := outcome.failure()).kind != "not_found":
            raise self._error(INTERNAL_ERROR, str(render(outcome, call=call)), {"uri": uri, KIND: error.kind})
        gone = f"No result of at most {LONGEST:,} characters is kept under this URI for this client."
        raise self._error(INVALID_PARAMS, gone, {"uri": uri})

    @property
    def keeps_results(self) -> bool:
        """Whether there may be kept results to read."""
        return bool(self._resources.reader)

    def _sign(self, context: Any, name: str, arguments: Any) -> Call:
        """The call of the client that makes a request."""
        principal = "" if context.request is None else self._read_principal()
        call_id, wording = write_call_id(context.request_id), self._wordings.find(context)
        call = Call(name, arguments, call_id, principal, self._deps, wording=wording)
        return self._clients.sign(call, context, self._pipeline)

    async def _answer(self, context: Any, call: Call, tool: Tool[..., Any] | None) -> Message:
        may_ask = tool is None or tool.context or self._approvals is not None
        if not is_modern(context):
            return await self._make_result(call, let_ask(context) if may_ask else context, tool)
        state: Any = context.params.get(_STATE)
        if isinstance(state, str) and state.startswith(OURS):
            asking: AskingCall | None = context.lifespan_context.asking.take(state)
            if asking is None:
                raise self._error(INVALID_PARAMS, "The call that asked has ended. Send it again without an answer.")
            asking.go_on(context)
        elif may_ask:
            asking = AskingCall(context, context.lifespan_context.asking)
            make_result = partial(self._make_result, call, asking.context, tool)
            context.lifespan_context.group.start_soon(asking.run, make_result)
        else:
            return await self._make_result(call, context, tool)
        result = await asking.wait()
        if result is None:
            raise self._error(INTERNAL_ERROR, "The call was ended.")
        if asking.lacks and result.get("_meta", {}).get(KIND) == "configuration":  # else the tool did without
            needed = {"requiredCapabilities": {each: dict[str, Any]() for each in asking.lacks}}
            raise self._error(_LACKING, "The client does not offer what this tool needs.", needed)
        return result

    async def _make_result(self, call: Call, context: Any, tool: Tool[..., Any] | None) -> Message:
        asked: list[Message] = []
        given: Any = {REQUEST: context, ASKED: asked, OF_CALL: name_request(context.request_id)}
        call = attrs.evolve(call, state=given)
        run = self._run_told if (tool is None or tool.context) and _wants_progress(context) else self._run
        if context.meta:
            with _read_parent(context.meta):
                outcome = await self._run_decided(run, call, context)
        else:
            outcome = await self._run_decided(run, call, context)
        if asked and is_modern(context) and is_failure(outcome) and type(outcome.failure()) is NeedsUserInput:
            return asked[-1]
        if tool is None and is_success(outcome):
            resolved = self._pipeline.resolve(call)  # by an alias, or a form of the name that the pipeline accepts
            tool = resolved.tool if isinstance(resolved, ResolvedCall) else None
        result = make_result(outcome, None if tool is None else self._tools.find_form(tool), call.name, call)
        if is_success(outcome) and (links := await self._resources.list_links(call, result)):
            result["content"] = [*result["content"], *links]
        return complete(result) if is_modern(context) else result

    async def _run_decided(self, run: Callable[[Call, Any], Awaitable[Outcome]], call: Call, context: Any) -> Outcome:
        """Run a call; if it waits for a person, ask the one at the client, and give the answer to what was decided."""
        outcome = await run(call, context)
        if self._approvals is None or not _can_be_asked(context):
            return outcome

        async def ask(question: Question) -> Message:
            session, request_id = context.session, context.request_id
            params = question.params
            answer = await session.elicit_form(
                params["message"], params["requestedSchema"], related_request_id=request_id
            )
            return {"action": answer.action, "content": answer.content}

        return await run(call, context) if await ask_person(ask, self._approvals, call, outcome) else outcome

    async def _run(self, call: Call, _context: Any) -> Outcome:
        return await self._find_pipeline(call)(call)

    def _find_pipeline(self, call: Call) -> Pipeline:
        """The pipeline that words its texts as the client of this call wants them."""
        pipeline, wording = self._pipeline, call.wording
        return pipeline if wording is None or wording is pipeline.wording else pipeline.with_(wording=wording)

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

        return await follow(self._find_pipeline(call), call, tell, content=False)


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


def _can_be_asked(context: Any) -> bool:
    able = context.session.client_capabilities
    return able is not None and takes_forms(able.model_dump(mode="json", by_alias=True, exclude_none=True))


def _read_number(value: object) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value) else None
