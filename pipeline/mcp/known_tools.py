"""KnownTools: what a relay has learned of the tools of a server, from the lists that pass by or that it asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from types import NoneType
from typing import Any, TypeAlias

import anyio

from ..base import timing
from ..base.nesting import is_deep
from ..policies.relay_policy import RelayPolicy
from ..privacy import get_logger, neutralise
from ..tools import ToolRegistry
from .jsonrpc import Message, read_object
from .server_session import MAX_TOOLS, read_pages
from .tool_definitions import make_tool, read_effect, read_name

_LOG = get_logger()
_MAX_LISTINGS = 16  # that the client has begun and not ended
_OLD = 10.0  # seconds after which an unknown name is a reason to ask again

# Returns the result of `tools/list` for a cursor; None: the first page.
AskForPage: TypeAlias = Callable[[str | None], Awaitable[Message]]


class KnownTools:
    """The tools of a server, in a registry."""

    def __init__(self, registry: ToolRegistry, policy: RelayPolicy, handler: Callable[..., Awaitable[object]]) -> None:
        self._registry = registry
        self._policy = policy
        self._handler = handler
        self._definitions: dict[str, Message] = {}
        self._changes = 0  # how often the server said that its list changed, or was started
        self._learned = -1  # the number of changes that the definitions know of
        self._learned_at = 0.0
        self._listings: dict[str, tuple[int, list[Any]]] = {}  # by the cursor of the page that is to come
        self._before: dict[str, Message] | None = None  # the definitions that the last run of the server had
        self._lock = anyio.Lock()
        self._has_warned = False

    @property
    def changes(self) -> int:
        """A number that differs after each change that the server announced."""
        return self._changes

    def forget(self) -> None:
        """The list may have changed: it is learned again before the next call."""
        self._changes += 1
        self._listings.clear()

    def note_death(self) -> None:
        """The server ended: the next run may have other tools."""
        if self._learned >= 0:
            self._before = self._definitions
        self.forget()

    async def find_changes(self, ask: AskForPage) -> bool:
        """Whether the server has other tools than before it ended; False if they were not known."""
        if self._before is None:
            return False
        await self.learn(None, ask)
        before, self._before = self._before, None
        return _differ(before, self._definitions)

    def learn_page(self, params: Message, changes: int, answer: Message) -> None:
        """Learn from the answer to a ``tools/list`` of the client."""
        cursor, result = params.get("cursor"), read_object(answer, "result")
        if not isinstance(result.get("tools"), list) or not isinstance(cursor, (str, NoneType)):
            return
        begun = (changes, list[Any]()) if cursor is None else self._listings.pop(cursor, None)
        if begun is None:
            return
        since, found = begun
        found.extend(islice(result["tools"], MAX_TOOLS - len(found)))
        following = result.get("nextCursor")
        if not following:
            self._replace_all(found, since)
        elif isinstance(following, str) and len(self._listings) < _MAX_LISTINGS:
            self._listings[following] = since, found

    async def learn(self, name: object, ask: AskForPage) -> None:
        """Ask the server for its tools, if they are not known, or if none has this name and some time has passed.

        Raises:
            ServerGoneError: It ended.
            TimeoutError: It did not answer.
            InvalidAnswerError: It answered something else.
        """
        name = self._policy.renames.get(name, name) if isinstance(name, str) else name
        if self._knows(name):
            return
        async with self._lock:
            if self._knows(name):  # another call has asked meanwhile
                return
            since = self._changes
            self._replace_all(await read_pages(ask), since)

    def _knows(self, name: object) -> bool:
        if self._learned != self._changes:
            return False
        return (isinstance(name, str) and name in self._definitions) or timing.monotonic() - self._learned_at < _OLD

    def _replace_all(self, found: list[Any], since: int) -> None:
        definitions: dict[str, Message] = {}
        for each in found:
            name = read_name(each)
            if name is not None:
                definitions.setdefault(name, each)
        for name in self._definitions.keys() - definitions.keys():
            self._registry.unregister(name)
        for name, definition in definitions.items():
            if _differ(self._definitions.get(name), definition):
                self._put(name, definition)
        self._definitions = definitions
        self._learned, self._learned_at = since, timing.monotonic()
        self._warn_of_unknown(definitions)

    def _warn_of_unknown(self, definitions: Mapping[str, Message]) -> None:
        """Log once the names in the policy that the server does not have: they may be misspelt."""
        if self._has_warned:
            return
        self._has_warned = True
        for mistake in self._policy.find_unknown_tools(definitions):
            _LOG.warning("%s", mistake)

    def _put(self, name: str, definition: Message) -> None:
        policy = self._policy.of_tool(name)
        effect = policy.effect or read_effect(definition.get("annotations"), trusted=self._policy.trust_annotations)
        tool, mistake = make_tool(
            name,
            definition,
            self._handler,
            effect=effect,
            timeout=policy.timeout,
            attempts=policy.attempts,
            verify_with=policy.verify_with,
        )
        if mistake:
            _LOG.warning("the arguments of %s are validated in part: %s", neutralise(name), neutralise(mistake))
        if name in self._registry:
            self._registry.replace(tool)
        else:
            self._registry.register(tool)
        if policy.closed:
            self._registry.disable(name)


def _differ(before: object, now: object) -> bool:
    return is_deep(before) or is_deep(now) or before != now
