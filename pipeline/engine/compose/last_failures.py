"""LastFailures: what the model read last of each tool, so that its next text says what changed."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from sys import getsizeof
from threading import Lock
from typing import Any, Final, TypeAlias, cast

import attrs
from returns.result import Failure

from ...base.foreign_values import or_default
from ...base.forking import register_after_fork
from ...messages.changes import CUT_BEFORE, SAME_ARGUMENTS, SAME_ERROR, SAME_MISTAKE, SAME_NAME, compare_paths
from ...messages.default import default_text
from ...parameters.limits import Limits
from ..call import Call, Outcome, ResolvedCall
from ..call_state import BATCH
from ..errors import (
    AwaitingApproval,
    Denied,
    ExecutionFailed,
    InvalidParams,
    MalformedCall,
    NotExecuted,
    ResourceNotFound,
    ToolError,
    Unavailable,
    UnknownTool,
)

_COUNTED: Final = frozenset((UnknownTool, MalformedCall, InvalidParams))  # no time makes such a call right
_COMPARED: Final = _COUNTED | {ResourceNotFound, ExecutionFailed}
_SAYS_NOTHING: Final = frozenset((Unavailable, NotExecuted, Denied, AwaitingApproval))  # of the arguments
_FROM: Final = 3  # the first call that is told that it is one of several
_BYTES: Final = 33_554_432  # of all conversations, as estimated; the oldest is forgotten
_TOOLS: Final = 16  # of one conversation, the last ones
_CALLS: Final = 64  # of one conversation, the last ones
_TOGETHER: Final = 4  # failures of one tool in one reply
_PATHS: Final = 16  # of one failure; of more, none is remembered
_PATH: Final = 100  # characters
_NAME: Final = 128  # characters
_LIMITS: Final = Limits()  # within them the whole call counts, and its first values above
_VALUES: Final = 5_000
_CHARACTERS: Final = 1_000_000  # a text is read whole, so it may be one text longer
_Counts: TypeAlias = OrderedDict[bytes, int]


@attrs.frozen
class _Told:
    """One failure. Of arguments and texts digests are kept, with a key of the process."""

    kind: str  # of the error
    sent: bytes | None  # the arguments; None: they cannot be written
    text: bytes | None = None  # of the error; None: it is not compared
    was_cut: bool = False
    paths: tuple[str, ...] | None = None  # where the arguments were wrong; None: not known, or too many

    @property
    def size(self) -> int:
        return 400 + sum(map(getsizeof, self.paths or ()))


@attrs.define
class _Last:
    """The last failures of a tool."""

    together: object  # the reply, or the batch, that they came in; None: not known, and there is one
    told: list[_Told]
    before: list[_Told]  # those of the reply before it, with which these are compared
    first: str  # the kind of the failure after the last success
    failed: int  # how many replies failed since then


@attrs.define
class _Talk:
    """One conversation of one principal."""

    counts: _Counts = attrs.field(factory=OrderedDict[bytes, int])  # how often each refused call came
    last: OrderedDict[str, _Last] = attrs.field(factory=OrderedDict[str, _Last])  # by the name of the tool
    size: int = 0  # bytes, about


class LastFailures:
    """Remembers the last failures of each tool in each conversation, until it succeeds, and counts equal refusals.

    What is paused, busy, denied or waits for a person is not counted, and says nothing of the arguments: the model
    cannot mend it, and it may end by itself. Calls of one reply, or of one `gather`, are not compared with each other.
    Threads may share it.
    """

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self.talks: OrderedDict[tuple[str, str], _Talk] = OrderedDict()
        self.size = 0  # bytes, about
        self._restart_in_child()
        register_after_fork(self._restart_in_child)

    def _restart_in_child(self) -> None:
        self._lock = Lock()

    def tell(self, call: Call, reached: object, outcome: Outcome) -> Outcome:
        """The failed outcome of a call in a conversation, whose error says what changed, or how often it was sent."""
        error: Any = cast("Failure[Any]", outcome).failure()
        change, times = self._find_change(call, reached, error)
        if times >= _FROM:
            return Failure(error.sent_again(times))
        return Failure(error.since_last(change)) if change else outcome

    @or_default(("", 0))  # a principal or a conversation that cannot be a key: nothing is known of the calls before
    def _find_change(self, call: Call, reached: object, error: Any) -> tuple[str, int]:
        now = self._describe(call, error)
        with self._lock:
            return self._note(call, _find_name(call, reached), now, type(error))

    @or_default(None)  # as above
    def find_failure(self, call: Call, reached: object) -> tuple[str, int] | None:
        """The failure that a call answers, if it does: the kind of the first one, and how often its tool has failed."""
        with self._lock:
            talk = self.talks.get((call.principal, call.conversation))
            last = None if talk is None else talk.last.get(_find_name(call, reached))
            if last is None or (last.together is not None and last.together == _find_batch(call)):
                return None
            return last.first, last.failed

    @or_default(None)  # as above
    def forget(self, call: Call, reached: object) -> None:
        """A call of this tool succeeded: what comes next has nothing to be compared with."""
        asker, name = (call.principal, call.conversation), _find_name(call, reached)
        with self._lock:
            talk = self.talks.get(asker)
            last = None if talk is None else talk.last.get(name)
            if talk is None or last is None or (last.together is not None and last.together == _find_batch(call)):
                return
            del talk.last[name]
            self._weigh(asker, talk)

    def _describe(self, call: Call, error: Any) -> _Told:
        if type(error) not in _COMPARED:
            return _Told(error.kind, None)
        written = _write(call, error.kind)
        sent = None if written is None else self._digest(written)
        if type(error) is UnknownTool:
            return _Told(error.kind, sent)
        if type(error) is InvalidParams:
            return _Told(error.kind, sent, paths=_list_paths(error))
        text = "" if type(error) is MalformedCall and error.position is None else _as_text(error)
        digest = self._digest(text.encode(errors="replace")) if text else None
        return _Told(error.kind, sent, digest, type(error) is MalformedCall and error.truncated)

    def _digest(self, text: bytes) -> bytes:
        return blake2b(text, key=self._key, digest_size=16).digest()

    def _note(self, call: Call, name: str, now: _Told, kind: Any) -> tuple[str, int]:
        """The sentence that tells a change, and how often the call came, 0 if it is not counted."""
        asker = call.principal, call.conversation
        talk = self.talks.setdefault(asker, _Talk())
        self.talks.move_to_end(asker)
        batch, last, times = _find_batch(call), talk.last.pop(name, None), 0
        if last is not None and batch is not None and last.together == batch:
            change = _compare(now, last.before, is_first=False)
            if len(last.told) < _TOGETHER:
                last.told.append(now)
        else:
            before = [] if last is None else last.told
            change = _compare(now, before, is_first=True)
            first, failed = (now.kind, 0) if last is None else (last.first, last.failed)
            told = before if before and kind in _SAYS_NOTHING else [now]
            last = _Last(batch, told, before, first, failed + 1)
        talk.last[name] = last
        if kind in _COUNTED and now.sent is not None:
            times = talk.counts[now.sent] = talk.counts.pop(now.sent, 0) + 1
        for held, most in ((talk.last, _TOOLS), (talk.counts, _CALLS)):
            if len(held) > most:
                held.popitem(last=False)
        self._weigh(asker, talk)
        while self.size > _BYTES:
            self.size -= self.talks.popitem(last=False)[1].size
        return change, times

    def _weigh(self, asker: tuple[str, str], talk: _Talk) -> None:
        before = talk.size
        if not talk.last and not talk.counts:
            self.size -= before
            del self.talks[asker]
            return
        held = sum(each.size for last in talk.last.values() for each in (*last.told, *last.before))
        names = sum(map(getsizeof, (*asker, *talk.last)))
        talk.size = 900 + names + held + 250 * len(talk.last) + 180 * len(talk.counts)
        self.size += talk.size - before


def _find_batch(call: Call) -> object:
    return call.reply or BATCH.get()


def _find_name(call: Call, reached: object) -> str:
    name = cast("object", reached.tool.name if isinstance(reached, ResolvedCall) else call.name)
    if not isinstance(name, str):
        return ""
    if len(name) <= _NAME:
        return str.__str__(name)
    return blake2b(name.encode(errors="replace"), digest_size=16).hexdigest()


def _compare(now: _Told, before: list[_Told], *, is_first: bool) -> str:
    """A sentence for the model, or ""."""
    alike = [each for each in before if each.kind == now.kind]
    if not alike:
        return ""
    if now.kind == UnknownTool.kind:
        return SAME_NAME
    if now.kind == InvalidParams.kind:
        if now.sent is not None and any(each.sent == now.sent for each in alike):
            return SAME_ARGUMENTS
        then = alike[0].paths
        is_one = is_first and len(before) == 1  # else it is not known which of them the model has mended
        return compare_paths(now.paths, then) if is_one and now.paths is not None and then is not None else ""
    if now.was_cut and any(each.was_cut for each in alike):
        return CUT_BEFORE
    if now.text is None or all(each.text != now.text for each in alike):
        return ""
    return SAME_MISTAKE if now.kind == MalformedCall.kind else SAME_ERROR


@or_default(None)  # code that is not type-checked may put values of other types into fields
def _list_paths(error: InvalidParams) -> tuple[str, ...] | None:
    paths = tuple(dict.fromkeys(str.__str__(problem.path) for problem in error.problems[: _PATHS + 1]))
    return None if len(paths) > _PATHS or any(len(path) > _PATH for path in paths) else paths


@or_default("")  # as above
def _as_text(error: ToolError) -> str:
    return default_text(error)


@or_default(None)  # arguments that a program made may hold anything
def _write(call: Call, kind: str) -> bytes | None:
    given: Any = call.arguments
    if not isinstance(given, str):
        held = dict(cast("Mapping[str, Any]", given or {}))
        given = json.dumps(held, sort_keys=True) if _LIMITS.check(held) is None else _begin(held)
    return json.dumps([kind, call.name, given]).encode()


def _begin(arguments: dict[str, Any]) -> list[object]:
    """The first values of arguments above the limits: a small value that holds one part often is a long text."""
    found: list[object] = []
    characters, pending = 0, [cast("Any", arguments)]
    while pending and len(found) < _VALUES and characters < _CHARACTERS:
        each = pending.pop()
        if isinstance(each, dict):
            held = cast("dict[str, Any]", each)
            found.append(["object", len(held)])
            pending += [part for name in sorted(held) for part in (held[name], name)]
        elif isinstance(each, (list, tuple)):
            items = cast("list[Any]", each)
            found.append(["array", len(items)])
            pending += reversed(items)
        else:
            found.append(each)
            characters += len(each) if isinstance(each, str) else 0
    return found
