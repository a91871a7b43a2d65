"""LastCalls: the last call of each conversation and tool, as a loop guard compares it with the next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any, NamedTuple

import attrs

from ..base.forking import register_after_fork
from ..tools import Tool
from .plain_data import estimate_bytes

_MOST_TOOLS = 1000  # of one conversation: a registry may make tools without end


class Row(NamedTuple):
    """Equal calls in a row, as of the last one that ended."""

    times: int
    arguments: object  # a digest: the caller still holds the params and may change them
    changes: int  # of the conversation, by then
    at: float


@attrs.define(eq=False)
class Conversation:
    """The last calls of one conversation."""

    calls: dict[Tool[..., Any], LastCall | None] = attrs.field(factory=dict[Any, Any])  # None: the tool is exempt
    changes: int = 0  # calls that may have changed something and repeated nothing


@attrs.define(eq=False)
class LastCall:
    """The last call of one tool."""

    conversation: Conversation
    params: dict[str, Any] | None = attrs.field(default=None, repr=False)
    digest: object = None  # of the outcome
    row: Row | None = None  # None: the call repeated nothing
    newest: bool = False  # of all; then its arguments are not weighed yet


class LastCalls:
    """The last calls of the conversations that called last. Threads may share it.

    Args:
        size: Conversations that are remembered: at least the last so many, at most twice as many.
        max_bytes: Estimated bytes of the arguments that are kept, without the newest call.
    """

    def __init__(self, size: int, max_bytes: int) -> None:
        self._size = size
        self._max_bytes = max_bytes
        # By conversation, in two generations: an order by last use would take longer than all else here.
        self.recent: dict[Hashable, Conversation] = {}
        self._older: dict[Hashable, Conversation] = {}
        self._newest: LastCall | None = None  # its arguments are weighed when another one is the newest
        # Bytes of the arguments of the others, oldest first. A plain dict takes ever longer to find its first entry
        # while entries are taken from its front.
        self._sizes: OrderedDict[LastCall, int] = OrderedDict()
        self._bytes = 0  # the sum of these
        self._lock = Lock()  # of the four above
        register_after_fork(self._restart_in_child)

    def add(self, key: Hashable, tool: Tool[..., Any], *, exempt: bool) -> LastCall | None:
        """Add a tool that the conversation did not call lately, and return its record; None for an exempt tool."""
        conversation = self.recent.get(key)
        if conversation is None:
            conversation = self._older.pop(key, None) or Conversation()
            if len(self.recent) >= self._size:
                forgotten = self._older
                self.recent, self._older = {}, self.recent
                for each in list(forgotten.values()):
                    self._forget_sizes(each)
            self.recent[key] = conversation
        if len(conversation.calls) >= _MOST_TOOLS:
            self._forget_sizes(conversation)
            conversation.calls.clear()
        return conversation.calls.setdefault(tool, None if exempt else LastCall(conversation))

    def weigh(self, newest: LastCall) -> None:
        """Weigh the arguments that were the newest until now, and forget the oldest while there are too many bytes.

        So calls of one tool in a row are not weighed at all: each takes the place of the one before.
        """
        with self._lock:
            last, self._newest = self._newest, newest
            if last is None:
                newest.newest = True
                return
            last.newest, newest.newest = False, True
            self._bytes -= self._sizes.pop(newest, 0) + self._sizes.pop(last, 0)
            self._sizes[last] = size = estimate_bytes(last.params)
            self._bytes += size
            while self._bytes > self._max_bytes:
                oldest = last if size > self._max_bytes else next(iter(self._sizes))
                self._bytes -= self._sizes.pop(oldest)
                oldest.params = None

    def _forget_sizes(self, conversation: Conversation) -> None:
        with self._lock:
            for last in list(conversation.calls.values()):
                if last is not None:
                    self._bytes -= self._sizes.pop(last, 0)

    def _restart_in_child(self) -> None:
        """After a fork: another thread may have held the lock, in the middle of a change."""
        self._lock = Lock()
        self._bytes = sum(self._sizes.values())
