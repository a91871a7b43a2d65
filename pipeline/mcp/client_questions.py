"""ClientQuestions: what a relay itself asks the person at its client, in both eras of the protocol.

The versions with a handshake carry a question as a request. Those without one (from 2026) carry it in a result,
``input_required``, and the client sends its request again with the answer.

Source: https://modelcontextprotocol.io/specification (client/elicitation, "Multi Round-Trip Requests").
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio

from .asking_person import Question, takes_forms
from .jsonrpc import Message, dump, is_answer, read_object
from .lines import BrokenLineError, LineWriter
from .own_requests import OwnRequests

_KEY: Final = "approval"  # of the one question in a result
_STATE: Final = "requestState"
_ANSWERS: Final = "inputResponses"
_ABLE: Final = "io.modelcontextprotocol/clientCapabilities"
_MOST_OPEN: Final = 1_000  # questions in results; the oldest are forgotten, and asked again
_CANCELLING: Final = 1.0  # seconds to send the client a cancellation


class ClientQuestions:
    """The questions that have no answer yet.

    Args:
        writer: The stream that the client reads.
        read_capabilities: Returns what the client declared in its handshake.
    """

    def __init__(self, writer: LineWriter, read_capabilities: Callable[[], Message]) -> None:
        self._writer, self._read_capabilities = writer, read_capabilities
        self._requests = OwnRequests()
        # Random, since the server may be one of ours, with states of its own.
        self._prefix = f"toolcall-{secrets.token_hex(6)}-"
        self._held: dict[str, str] = {}  # the id of an approval, by the state that the client sends back

    def can_ask(self, meta: Message, *, is_modern: bool) -> bool:
        """Whether the client of a request can be asked.

        Args:
            meta: The ``_meta`` of the request.
            is_modern: Whether it is of a version without a handshake.
        """
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
            return read_object((await request.wait()).message, "result")
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
