"""AskingCall: a served call whose tool asks the client, in both eras of the protocol.

The versions with a handshake carry a question as a request of the server. Those without one (from 2026) carry it in a
result, ``input_required``, and the client sends its request again with the answers. The body waits at the question
meanwhile, so nothing that it did before runs again.

Source: https://modelcontextprotocol.io/specification (basic/utilities, "Multi Round-Trip Requests").
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from dataclasses import replace
from math import inf
from typing import Any, Final

import anyio
import attrs
from anyio.lowlevel import checkpoint
from returns.result import Failure, Success

from ..engine.call import Outcome
from ..engine.call_state import StateKey
from ..engine.compose import Pipeline
from ..engine.errors import NeedsUserInput
from ..privacy import approved
from ..tools import Tool
from ..tools.failure import ToolFailed
from .jsonrpc import Message, read_object
from .result_blocks import is_native

_PATIENCE: Final = 600.0  # seconds for a person to answer; the SDK's state of a request lives as long
OURS: Final = "toolcall-"  # begins the state of a call that waits here
_MOST_OPEN: Final = 1_000  # calls that wait for an answer, for each transport
_SIBLINGS: Final = 3  # turns of the event loop for questions that a tool asks at once
_NEEDS: Final[Mapping[str, str]] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}  # the capability of a client that each request of a server needs
# For the end of a served pipeline: the list that gets the result of the tool.
ASKED: Final[StateKey[list[Message]]] = StateKey("toolcall-pipeline.mcp-asked")
_UNSAID: Final = "The tool needs an answer of the user."


@attrs.define(eq=False)
class _Question:
    request: Message
    reads: Callable[[Any], Any]  # raises ValueError for what is no answer
    answer: Any = None
    is_answered: anyio.Event = attrs.field(factory=anyio.Event)


class AskingCalls:
    """The calls of one transport that wait for answers, by the state that their clients send back."""

    def __init__(self) -> None:
        self._waiting: dict[str, AskingCall] = {}

    @property
    def is_full(self) -> bool:
        """Whether no more may wait."""
        return len(self._waiting) >= _MOST_OPEN

    def hold(self, call: AskingCall) -> str:
        """Keep a call until its answers come. Returns the state that the client sends back with them."""
        state = OURS + secrets.token_urlsafe(24)
        self._waiting[state] = call
        return state

    def take(self, state: str) -> AskingCall | None:
        """Return the call that waits under this state, which is used up; None: there is none."""
        return self._waiting.pop(state, None)

    def forget(self, state: str) -> None:
        """A call has ended without its answers."""
        self._waiting.pop(state, None)


class AskingCall:
    """One call, over all the requests that carry it.

    Args:
        context: The context of its first request.
        calls: Where it is kept while a question is out.

    Attributes:
        context: The same for the tool: its session asks in the way of this client.
        lacks: The capabilities of the client that the tool wanted, and that it does not have.
    """

    def __init__(self, context: Any, calls: AskingCalls) -> None:
        self._calls = calls
        self.lacks: list[str] = []
        self._session = _make_session(context, self._ask, self.lacks)
        self.context = replace(context, session=self._session)
        self._questions: dict[str, _Question] = {}
        self._count = 0
        self._moved = anyio.Event()  # there is a question, or the end
        self._scope = anyio.CancelScope()
        self._state = ""  # under which it waits
        self._has_ended = False
        self._result: Message | None = None

    async def run(self, make_result: Callable[[], Awaitable[Message]]) -> None:
        """Run the call, in a task that outlives the request."""
        try:
            with self._scope:
                self._result = await make_result()
        finally:
            self._has_ended = True
            self._calls.forget(self._state)
            self._moved.set()

    async def wait(self) -> Message | None:
        """Return the result of the call, or the one that asks the client; a caller who is cancelled cancels the call.

        None: the call was ended.
        """
        try:
            await self._moved.wait()
            for _ in range(_SIBLINGS):
                await checkpoint()
        except anyio.get_cancelled_exc_class():
            self._scope.cancel()
            raise
        if self._has_ended:
            return self._result
        self._scope.deadline = anyio.current_time() + _PATIENCE
        self._state = self._calls.hold(self)
        asked = {key: question.request for key, question in self._list_open()}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": self._state}

    def go_on(self, context: Any) -> None:
        """The answers came, with the next request. An invalid answer is asked for again."""
        self._scope.deadline = inf
        self._session._request_outbound = context.session._request_outbound  # noqa: SLF001  # of `copy`, below
        answers = read_object(dict(context.params), "inputResponses")
        for key, question in self._list_open():
            try:
                question.answer = question.reads(answers.get(key))
            except ValueError:  # of pydantic
                continue
            question.is_answered.set()
        self._moved = anyio.Event()
        if self._has_ended or self._list_open():
            self._moved.set()

    def _list_open(self) -> list[tuple[str, _Question]]:
        return [(key, each) for key, each in self._questions.items() if not each.is_answered.is_set()]

    async def _ask(
        self, request: Any, result_type: Any, request_read_timeout_seconds: float | None = None, **_options: Any
    ) -> Any:
        """As ``ServerSession.send_request`` of the package."""
        if self._calls.is_full:
            raise ToolFailed("Too many calls wait for an answer of the user.", kind="unavailable", retry_after=60)
        sent = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        self._count += 1
        key = f"question_{self._count}"
        question = _Question(
            {"method": sent["method"], "params": sent.get("params", {})},
            lambda answer: result_type.model_validate(answer, by_name=False),
        )
        self._questions[key] = question
        self._moved.set()
        try:
            with anyio.fail_after(request_read_timeout_seconds):
                await question.is_answered.wait()
        finally:
            del self._questions[key]
        return question.answer


def let_ask(context: Any) -> Any:
    """The context of a request with a handshake, for its tool: the session asks only a client that can be asked."""
    return replace(context, session=_make_session(context, context.session.send_request, []))


def _make_session(context: Any, send: Callable[..., Awaitable[Any]], lacks: list[str]) -> Any:
    """A session for a tool: a copy of the request's own that sends requests in this way."""
    session = copy(context.session)

    async def send_request(request: Any, *args: Any, **options: Any) -> Any:
        needed = _NEEDS.get(request.method)
        able = session.client_capabilities
        if needed is None or (able is not None and getattr(able, needed) is not None):
            return await send(request, *args, **options)
        if needed == "elicitation":  # then its model asks, in words
            raise ToolFailed(request.params.message, kind="needs_input")
        lacks.append(needed)
        raise ToolFailed(f"This client does not offer {needed}, which this tool needs.", kind="configuration")

    session.send_request = send_request
    return session


class ServedEnd:
    """The end of another pipeline, with this one difference."""

    def __init__(self, pipeline: Pipeline) -> None:
        end = pipeline.entries[-1]
        self._run = end.run
        self.placement = end.placement
        self.resources: Any = getattr(end.obj, "resources", ())
        self.check_tool: Any = getattr(end.obj, "check_tool", _take_any)

    async def __call__(self, call: Any) -> Outcome:
        """Run the body. One that asks has ended, as ``needs_input``; the request with the answer begins it again."""
        outcome: Outcome = await self._run(call)
        if type(outcome) is not Success or not is_native(value := outcome.unwrap(), "InputRequiredResult"):
            return outcome
        result: Any = value
        call.get_state(ASKED, []).append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
        asks = Failure(NeedsUserInput(approved(_read_question(result))))
        if call.guards is not None:  # the body itself says this: nobody answers in its place
            call.guards.learn_meaning(outcome, asks)
        return asks


def _take_any(_tool: Tool[..., Any]) -> None:
    """Take any tool, as an end does that has no ``check_tool``."""


def serve_end(pipeline: Pipeline) -> Pipeline:
    """The pipeline with a `ServedEnd`. Its stages are the same objects, so it is open when the other one is."""
    return pipeline.replace(pipeline.stages[-1], ServedEnd(pipeline))


def _read_question(result: Any) -> str:
    """The first question to a person in a result that asks."""
    asked: Any = result.input_requests or {}
    texts = (getattr(each.params, "message", None) for each in asked.values())
    return next((text for text in texts if isinstance(text, str)), _UNSAID)
