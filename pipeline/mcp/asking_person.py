"""Ask the person at a client of MCP to approve a call, by elicitation. A server and a relay ask the same question.

The versions with a handshake carry a question as a request. Those without one (from 2026) carry it in a result,
``input_required``, and the client sends its request again with the answer.

Source: https://modelcontextprotocol.io/specification (client/elicitation, "Multi Round-Trip Requests").
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

import anyio
import attrs

from ..approvals import Approval, Approvals
from ..engine.call import Call, Outcome, is_failure
from ..engine.compose import Pipeline
from ..engine.errors import AwaitingApproval
from ..privacy import dump_neutral_json, get_logger, neutralise
from ..stores import StoreError
from ..tools.failure import ToolFailed
from .jsonrpc import Message, dump, is_answer, read_object
from .lines import BrokenLineError, LineWriter
from .own_requests import OwnRequests

PATIENCE: Final = 600.0  # seconds for a person to answer; the SDK's state of a request lives as long
_SHOWN: Final = 4_000  # characters of the arguments; a person who cannot see them all is not asked
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": ["approve", "reject"]},
        "message": {"type": "string", "title": "Words for the model", "description": "Optional."},
    },
    "required": ["decision"],
}
_KEY: Final = "approval"  # of the one question in a result
_STATE: Final = "requestState"
_ANSWERS: Final = "inputResponses"
_ABLE: Final = "io.modelcontextprotocol/clientCapabilities"
_MOST_OPEN: Final = 1_000  # questions in results; the oldest are forgotten, and asked again
_CANCELLING: Final = 1.0  # seconds to send the client a cancellation
_log = get_logger()


@attrs.frozen
class Question:
    """A question to the person at a client."""

    approval: str  # its id
    text: str  # the call in words

    @property
    def params(self) -> Message:
        """The params of ``elicitation/create``."""
        return {"message": self.text, "requestedSchema": _SCHEMA}


# Shows a question; returns the result of ``elicitation/create``, in the spelling of the protocol.
Ask: TypeAlias = Callable[[Question], Awaitable[Message]]


def find_approvals(pipeline: Pipeline) -> Approvals | None:
    """The calls of a pipeline that wait for a person; None: it asks no person."""
    stage: Any = next((each.obj for each in pipeline.entries if each.placement.kind == "approve"), None)
    return None if stage is None else stage.approvals


def takes_forms(capabilities: Message) -> bool:
    """Whether a client shows forms, by its capabilities: one that names no mode of elicitation does."""
    modes = capabilities.get("elicitation")
    return isinstance(modes, dict) and ("form" in modes or not modes)


def describe(approval: Approval) -> str | None:
    """A call in words for a person, who sees each character of it; None: it is too long to be judged so."""
    arguments = dump_neutral_json(approval.arguments, indent=2)
    if len(arguments) > _SHOWN:
        return None
    reason = f"\nReason: {neutralise(approval.reason)}" if approval.reason else ""
    return f"Let the tool {neutralise(approval.tool)} run with these arguments?\n{arguments}{reason}"


async def find_question(approvals: Approvals, call: Call, outcome: Outcome) -> Question | None:
    """The question about a call; None: it does not wait, or it cannot be shown whole."""
    if not is_failure(outcome) or not isinstance(waiting := outcome.failure(), AwaitingApproval):
        return None
    try:
        approval = await approvals.get(waiting.id)
    except StoreError as exc:
        _give_up(call, exc)
        return None
    text = None if approval is None else describe(approval)
    return None if text is None else Question(waiting.id, text)


async def ask_person(ask: Ask, approvals: Approvals, call: Call, outcome: Outcome) -> bool:
    """Ask the client about a call that waits.

    Returns:
        Whether a decision was made, so that the same call now gets its answer. False: the call does not wait, or the
        user of the client has not decided.
    """
    question = await find_question(approvals, call, outcome)
    if question is None:
        return False
    answer: Message = {}
    try:
        with anyio.move_on_after(PATIENCE):
            answer = await ask(question)
    except ToolFailed as exc:
        _give_up(call, exc)
    return await decide(approvals, call, question.approval, answer)


async def decide(approvals: Approvals, call: Call, id_: str, answer: Message) -> bool:
    """Decide as the person at the client did. Returns False if there is no decision in the answer."""
    content = read_object(answer, "content")
    decision = content.get("decision") if answer.get("action") == "accept" else answer.get("action")
    by = call.principal or "the user of the MCP client"
    words = content.get("message")
    message = words if isinstance(words, str) else ""
    try:
        if decision == "approve":
            decided = await approvals.approve(id_, by=by, message=message)
        elif decision in ("reject", "decline"):
            decided = await approvals.reject(id_, by=by, message=message)
        else:
            return False
    except StoreError as exc:
        _give_up(call, exc)
        return False
    return decided is not None and decided.state != "pending"  # pending: who asks may not decide


def _give_up(call: Call, exc: Exception) -> None:
    _log.warning("Tool %.200r: its user was not asked: %s", call.name, type(exc).__name__)


class ClientQuestions:
    """The questions that have no answer yet."""

    def __init__(self, writer: LineWriter, read_capabilities: Callable[[], Message]) -> None:
        self._writer, self._read_capabilities = writer, read_capabilities
        self._requests = OwnRequests()
        # Random, since the server may be one of ours, with states of its own.
        self._prefix = f"toolcall-{secrets.token_hex(6)}-"
        self._held: dict[str, str] = {}  # the id of an approval, by the state that the client sends back

    def can_ask(self, meta: Message, *, is_modern: bool) -> bool:
        """Whether the client of a request can be asked."""
        return takes_forms(read_object(meta, _ABLE) if is_modern else self._read_capabilities())

    def is_answered_by(self, message: Message) -> bool:
        """Whether a message of the client answers a question of ours, be it too late."""
        return is_answer(message) and self._requests.is_ours(message.get("id"))

    def take(self, message: Message) -> None:
        """That answer came."""
        self._requests.deliver(message.get("id"), message)

    async def ask(self, question: Question) -> Message:
        """Ask in a request, as `Ask`; who is cancelled takes the question back. An error of the client is no answer."""
        request = self._requests.open("elicitation/create", question.params)
        try:
            await self._writer.write(request.line)
            return read_object(await request.wait(), "result")
        except BrokenLineError:  # the client is gone
            return {}
        except anyio.get_cancelled_exc_class():
            told = {"requestId": request.request_id, "reason": "the answer is not waited for any more"}
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CANCELLING), suppress(BrokenLineError):
                await self._writer.write(dump({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": told}))
            raise
        finally:
            self._requests.close(request)

    def hold(self, question: Question) -> Message:
        """The result that asks."""
        while len(self._held) >= _MOST_OPEN:
            del self._held[next(iter(self._held))]
        state = self._prefix + secrets.token_urlsafe(24)
        self._held[state] = question.approval
        asked = {_KEY: {"method": "elicitation/create", "params": question.params}}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}

    def read_answer(self, params: Message) -> tuple[Message, str, Message]:
        """Take the answer to a question of ours out of the params of a request.

        Returns:
            The params for the server, the id of the approval that was asked for, and the answer. "": none was, or the
            state is used up, so its question may be asked again.
        """
        state = params.get(_STATE)
        if not isinstance(state, str) or not state.startswith(self._prefix):
            return params, "", {}
        rest = {name: value for name, value in params.items() if name not in (_STATE, _ANSWERS)}
        return rest, self._held.pop(state, ""), read_object(read_object(params, _ANSWERS), _KEY)
