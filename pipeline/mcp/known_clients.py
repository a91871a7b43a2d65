"""KnownClients: whose call a request of MCP is, which decides what is remembered of it.

The conversation is what the application says. Else:

=======================================  ===========================================================================
a pair of streams: stdio, one process    the connection, which is one client
HTTP with a session                      the session, as a digest: who knows its id may act in it
HTTP without one                         the principal, with ``_meta["toolcall/conversation"]`` of the request
the principal alone                      no conversation: a call that may have taken effect is refused again for ten
                                         minutes, and nothing is replayed
none of these                            nothing is remembered; the report of a call that changes something says so
=======================================  ===========================================================================

The versions of the protocol without a handshake (from 2026) have no sessions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from threading import Lock
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

import attrs

from ..base import timing
from ..base.forking import register_after_fork
from ..engine.call import Call, Outcome, make_uuid
from ..engine.caller import InheritedGuard
from ..engine.compose import Pipeline
from ..engine.guards import Guards
from ..messages.text import replace_surrogates
from ..once import Conversation, InScope, Lost
from ..privacy import get_logger
from .jsonrpc import write_call_id

if TYPE_CHECKING:
    from ..tools import Tool

CONVERSATION: Final = "toolcall/conversation"  # in the `_meta` of a request
UNKNOWN: Final = "nothing is remembered of this call: neither its conversation nor its principal is known"
_TOLD: Final = (
    "clients without a session and without a principal are not known again: nothing is remembered of their calls, so "
    "one that was lost and is sent again may take effect twice"
)
_REFUSED_FOR: Final = 600.0  # seconds
_LONGEST: Final = 200  # characters of a conversation as the client wrote it; a longer one is kept as its digest
_CHANGING: Final = ("mutating", "keyed")
_LOG = get_logger()


class KnownClients:
    """The clients of a server, and what is undecided of those that are known by their principal alone."""

    def __init__(self) -> None:
        self._connections: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._scopes: WeakValueDictionary[str, _OfPrincipal] = WeakValueDictionary()
        self._held: OrderedDict[str, _OfPrincipal] = OrderedDict()  # where something is undecided, the latest last
        self._has_warned = False
        self._restart_in_child()
        register_after_fork(self._restart_in_child)

    def __len__(self) -> int:
        """How many principals something is kept of."""
        return len(self._scopes)

    def sign(self, call: Call, request: Any, pipeline: Pipeline) -> Call:
        """The call as a pipeline runs it, with its conversation and with what keeps track of it without one."""
        source, known = self._find_source(request), pipeline.ask(call)
        if known.conversation:
            # The ids are those of one client, and the conversation is not.
            reply = f"{source} {write_call_id(request.request_id)}" if source else make_uuid()
            return call.asked_by(conversation=known.conversation, reply=reply)
        if source:
            return call.asked_by(conversation=source)
        # A client without a session begins its ids anew as it likes.
        call = call.asked_by(conversation=_read_own(request) if known.principal else "", reply=make_uuid())
        if call.conversation:
            return call
        if known.principal:
            return call.under(None, Guards.of(_ByPrincipal(self._find_scope(known.principal)), outer=call.guards))
        return call.under(None, Guards.of(_Unremembered(), outer=call.guards)) if self.warn(pipeline) else call

    def warn(self, pipeline: Pipeline) -> bool:
        """Log, once, that clients are not known. Returns whether it matters: a ledger takes their calls for one's."""
        known = pipeline.ask(Call(""))
        if known.conversation or known.principal or any(stage.placement.kind == "ledger" for stage in pipeline.entries):
            return False
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning("%s", _TOLD)
        return True

    def _find_source(self, request: Any) -> str:
        """The connection or the session of a request; "": it has none."""
        if request is None:
            return ""
        connection = request.session._connection  # noqa: SLF001  # the context has no public name for it (mcp 2.3)
        if connection.session_id is not None:
            return f"mcp-{sha256(connection.session_id.encode()).hexdigest()[:32]}"
        if connection.has_standalone_channel:
            held = connection.outbound  # each request of the versions without a handshake has a connection of its own
        elif request.request is None:
            held = request.lifespan_context  # a client in this process, without streams
        else:
            return ""
        try:
            return self._connections.setdefault(held, make_uuid())
        except TypeError:  # it cannot be followed
            return ""

    def _find_scope(self, principal: str) -> _OfPrincipal:
        with self._lock:
            while self._held and next(iter(self._held.values())).is_old:
                self._held.popitem(last=False)
            found = self._scopes.get(principal)
            if found is None:
                found = self._scopes[principal] = _OfPrincipal(principal, self)
            return found

    def _restart_in_child(self) -> None:
        self._lock = Lock()
        for scope in list(self._scopes.values()):
            scope.restart_in_child()

    def hold(self, principal: str, scope: _OfPrincipal) -> None:
        """Something is undecided of the calls of a principal."""
        with self._lock:
            self._held[principal] = scope
            self._held.move_to_end(principal)


class _OfPrincipal(Conversation):
    """The undecided calls of a principal, for ten minutes."""

    def __init__(self, principal: str, clients: KnownClients) -> None:
        super().__init__()
        self._principal, self._clients = principal, clients
        self._latest = float("-inf")

    def restart_in_child(self) -> None:
        """Renew its lock, which another thread may have held."""
        self._own_lock = Lock()

    @property
    def is_old(self) -> bool:
        """Whether its last call was lost more than ten minutes ago."""
        return self._latest <= timing.monotonic() - _REFUSED_FOR

    def add(self, lost: Lost) -> None:
        super().add(lost)
        self._latest = lost.at
        self._clients.hold(self._principal, self)

    def find(self, call: Any, params: Mapping[str, object] | None) -> tuple[Lost, bool] | None:
        before = timing.monotonic() - _REFUSED_FOR
        for each in list(self.lost.values()):
            if each.at > before:
                break
            self.decide(each)
        return super().find(call, params)

    def is_full(self, tool: Tool[..., Any]) -> bool:
        self.forget(timing.monotonic() - _REFUSED_FOR)
        return super().is_full(tool)


@attrs.define(eq=False)
class _ByPrincipal(InScope):
    scope: Conversation | None


@attrs.frozen(eq=False)
class _Unremembered(InheritedGuard):
    """Refuses nothing, and says in the report of a call that changes something that nothing is remembered of it."""

    def refuse(self, call: Any) -> Outcome | None:
        report, tool = call.report, getattr(call, "tool", None)
        if report is not None and tool is not None and tool.effect in _CHANGING and not call.conversation:
            now = perf_counter_ns()
            if all(each[5] != UNKNOWN for each in report.rows):  # an attempt before this one has said it
                report.rows.append(("once", now, now, None, 0, UNKNOWN, 0))
        return None


def _read_own(request: Any) -> str:
    """The conversation that a client names, or its digest, where it is long or no text of Unicode; "": none."""
    meta: dict[str, Any] = (None if request is None else request.meta) or {}
    named = meta.get(CONVERSATION)
    if not isinstance(named, str) or not named:
        return ""
    written = named.encode(errors="surrogatepass")
    is_plain = len(named) <= _LONGEST and replace_surrogates(named) == named
    return named if is_plain else f"mcp-{sha256(written).hexdigest()[:32]}"
