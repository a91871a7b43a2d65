"""ScriptedModel: a model with prepared replies. `script`: a handler with prepared answers for a middleware."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import attrs

from ..engine.call import Call, Outcome


class ScriptedModel:
    """Replies with what it was given, one reply after the other. No request leaves the process.

    It is a model for `run_turn` by itself. ``openai`` and ``anthropic`` are clients for a loop that
    is written for ``AsyncOpenAI`` (chat completions) or ``AsyncAnthropic`` (messages).

    Args:
        *replies: A text, a call, or several calls. A call without id gets one.
    """

    def __init__(self, *replies: str | Call | Sequence[Call]) -> None:
        self.asked: list[Any] = []  # what each request consisted of: keyword arguments for a client, else a tuple
        self._replies = list(replies)
        self._ids = 0

    async def __call__(self, *asked: Any) -> list[Call]:
        """The calls of the next reply; none if it is a text. Raises AssertionError if no reply is left."""
        return self._reply(asked)[1]

    @property
    def openai(self) -> Any:
        """In place of an ``AsyncOpenAI``: ``await client.chat.completions.create(…)``."""
        return SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=self._complete)))

    @property
    def anthropic(self) -> Any:
        """In place of an ``AsyncAnthropic``: ``await client.messages.create(…)``."""
        return SimpleNamespace(messages=SimpleNamespace(create=self._answer))

    async def _complete(self, **request: Any) -> Any:
        text, calls = self._reply(request)
        asked = [
            SimpleNamespace(
                id=each.id,
                type="function",
                function=SimpleNamespace(name=each.name, arguments=_write_json(each.arguments)),
            )
            for each in calls
        ]
        message = SimpleNamespace(role="assistant", content=text, tool_calls=asked or None)
        choice = SimpleNamespace(index=0, message=message, finish_reason="tool_calls" if asked else "stop")
        return SimpleNamespace(id="scripted", object="chat.completion", choices=[choice])

    async def _answer(self, **request: Any) -> Any:
        text, calls = self._reply(request)
        content = [] if text is None else [SimpleNamespace(type="text", text=text)]
        content += [
            SimpleNamespace(type="tool_use", id=each.id, name=each.name, input=_read_json(each.arguments))
            for each in calls
        ]
        stop = "tool_use" if calls else "end_turn"
        return SimpleNamespace(id="scripted", type="message", role="assistant", content=content, stop_reason=stop)

    def _reply(self, request: Any) -> tuple[str | None, list[Call]]:
        self.asked.append(request)
        if not self._replies:
            raise AssertionError(f"the script has no reply for request {len(self.asked)}")
        reply = self._replies.pop(0)
        if isinstance(reply, str):
            return reply, []
        return None, [self._give_id(each) for each in ([reply] if isinstance(reply, Call) else reply)]

    def _give_id(self, call: Call) -> Call:
        self._ids += 1
        return call if call.id else attrs.evolve(call, id=f"call_{self._ids}")


def _write_json(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)


def _read_json(arguments: object) -> object:
    """An object, as Anthropic sends it; text that is none stays as it is."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


class Script:
    """A handler whose calls get one prepared answer after the other. Make it with `script`."""

    def __init__(self, parts: tuple[Outcome | BaseException, ...]) -> None:
        self._parts = list(parts)
        self.calls: list[Any] = []  # the calls it was given, in order

    async def __call__(self, call: Call) -> Outcome:
        """Return the next part, or raise it if it is an exception. Raises AssertionError if no part is left."""
        self.calls.append(call)
        if not self._parts:
            raise AssertionError(f"the script has no part for call {len(self.calls)}")
        part = self._parts.pop(0)
        if isinstance(part, BaseException):
            raise part
        return part


def script(*parts: Outcome | BaseException) -> Script:
    """Make a handler with prepared answers: ``script(Failure(Transient()), Success(1))`` fails once, then succeeds.

    Args:
        *parts: The answers, one for each call. An exception is raised. A further call raises AssertionError.
    """
    return Script(parts)
