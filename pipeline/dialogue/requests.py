"""Match a call of the next reply with a request: one that it tries again, one that is over, or a new one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import attrs

from ..engine.call import Call, Outcome, ResolvedCall, ValidCall
from ..engine.compose.pipeline import Pipeline
from ..engine.errors import OutcomeUnknown, TimedOut, ToolError, Transient, UnknownTool
from ..engine.report import error_of
from ..messages.changes import canonical_arguments
from ..messages.odd_fields import coerce_error_fields
from ..messages.values import as_text
from ..once.turn_guard import Identity
from ..parameters import read_arguments
from ..privacy import PublicText
from ..tools.definition import Tool

_NOT_RUN: Any = None  # the outcome until the first attempt has ended
_NO_TEXT = PublicText("")


@attrs.define(eq=False)
class Request:
    """One thing that the model wants done, through all attempts at it."""

    first: Call  # the call of the first attempt
    call: Call = attrs.field(default=attrs.Factory(lambda self: self.first, takes_self=True))
    outcome: Outcome[Any] = attrs.field(default=_NOT_RUN, repr=False)
    text: PublicText = attrs.field(default=_NO_TEXT, repr=False)
    tool: Tool[..., Any] | None = None
    attempt: int = 0  # how many have run
    identity: Identity | None = None

    @property
    def error(self) -> ToolError | None:
        """The error of the last attempt; None if it succeeded or no attempt has run."""
        return cast("ToolError | None", error_of(self.outcome))

    @property
    def name(self) -> str:
        """The tool's own name if it is known, else what the model wrote; "" if that is not text."""
        name = cast("object", self.call.name if self.tool is None else self.tool.name)
        return str.__str__(name) if isinstance(name, str) else ""


def inherit_context(call: Call, earlier: Call) -> Call:
    """A call of a model's reply with what the caller gave the earlier one.

    That is its principal, deps, conversation, time limit and state. An adapter need not know them, and without them a
    rate limit or an approval would be asked without a principal. The state is what the caller set before the call went
    in; what stages set for the earlier call is not in it.
    """
    asked = call.asked_by(earlier.principal, earlier.deps, earlier.conversation)
    timeout = earlier.timeout if call.timeout is None else call.timeout
    state = earlier.state if call.state is None else {**(earlier.state or {}), **call.state}
    return attrs.evolve(asked, timeout=timeout, state=state)


def match_requests(calls: Sequence[Call], requests: Sequence[Request]) -> list[Request | None]:
    """For each call the request that it tries again, each request once; None for a new one.

    A call tries again a request of the same tool; else one whose name no tool has, first where the tool was suggested;
    else one with the same id and an argument in common. Of several requests it is the one with which it has most
    arguments in common, then the one with its id: some providers number the calls of each reply anew. The rest goes
    by the order of the calls, unless there are fewer calls than requests: then it is unknown which request is meant,
    and to answer the wrong one is worse than to leave both open.
    """
    matching = _Matching(calls, requests)
    for fits in (_has_tool, _has_id_and_argument, _was_suggested, _has_unknown_name):
        matching.add(fits)
    return [matching.found.get(index) for index in range(len(calls))]


class _Matching:
    """The requests found so far, by the index of the call."""

    def __init__(self, calls: Sequence[Call], requests: Sequence[Request]) -> None:
        self.calls = calls
        self.left = list(requests)
        self.found: dict[int, Request] = {}

    def add(self, fits: Callable[[Request, Call], bool]) -> None:
        """Match calls and requests that fit each other."""
        free = [index for index in range(len(self.calls)) if index not in self.found]
        scores = {
            index: {place: _score(request, self.calls[index]) for place, request in enumerate(self.left)}
            for index in free
        }
        options = {
            index: [place for place in scores[index] if fits(self.left[place], self.calls[index])] for index in free
        }
        pairs: dict[int, int] = {}
        levels = {scores[index][place] for index in free for place in options[index]}
        for level in sorted((level for level in levels if any(level)), reverse=True):
            self._match_level(level, scores, options, pairs)
        for index in free:
            if index not in pairs and (places := _unmatched(options[index], pairs)):
                rivals = [other for other in free if other not in pairs and set(options[other]) & set(places)]
                if len(places) <= len(rivals) or len({_written(self.left[place]) for place in places}) == 1:
                    pairs[index] = places[0]
        self.found |= {index: self.left[place] for index, place in pairs.items()}
        self.left = [request for place, request in enumerate(self.left) if place not in pairs.values()]

    def _match_level(
        self, level: _Score, scores: dict[int, dict[int, _Score]], options: dict[int, list[int]], pairs: dict[int, int]
    ) -> None:
        """Match those with this score that have no other choice with it, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for index, places in options.items():
                left = _unmatched(places, pairs)
                best = [place for place in left if scores[index][place] == level]
                is_best = all(scores[index][place] <= level for place in left)
                if index not in pairs and is_best and len(best) == 1:
                    pairs[index] = best[0]
                    changed = True


def _unmatched(places: Sequence[int], pairs: Mapping[int, int]) -> list[int]:
    return [place for place in places if place not in pairs.values()]


_Score: TypeAlias = tuple[int, int, bool]  # arguments in common by name and value, by value alone; the same id


def _score(request: Request, call: Call) -> _Score:
    sent, before = list_arguments(call.arguments), list_arguments(request.call.arguments)
    return (
        len(sent & before),
        len({value for _, value in sent} & {value for _, value in before}),
        _has_id(request, call),
    )


def _written(request: Request) -> str:
    return canonical_arguments(request.call.arguments) or as_text(request.call.arguments)


def list_arguments(arguments: object) -> frozenset[tuple[str, str]]:
    """The arguments, nested ones too, as pairs of a name and a value as text; also of text that is cut off."""
    read = read_arguments(arguments)
    if read is None:
        text = str.__str__(arguments)[:_LONGEST] if isinstance(arguments, str) else ""
        return frozenset((_fold(name), _fold(value)) for name, value in _PAIR.findall(text))
    found: set[tuple[str, str]] = set()
    todo: list[tuple[str, Any]] = list(read.items())
    while todo and len(found) < _MOST:
        name, value = todo.pop()
        if isinstance(value, Mapping):
            todo += cast("Mapping[str, Any]", value).items()
        elif isinstance(value, (list, tuple)):
            todo += [(name, each) for each in cast("Sequence[Any]", value)]
        elif isinstance(value, (str, int, float)):
            found.add((_fold(as_text(name)), _fold(_plain(value))))
    return frozenset(found)


_PAIR = re.compile(r"""(\w+)["']?\s*[:=]\s*["']?([^"',}\]]+)""")
_LONGEST = 10_000  # characters of a text that is not an object
_MOST = 1_000  # arguments that are compared


def _plain(value: str | float) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return as_text(int(value) if whole else value)


def _fold(text: str) -> str:
    return text.strip().casefold()


def requires_retry(error: ToolError | None) -> bool:
    """Whether the model is asked for the call again: it can fix the error, and the call did not take effect."""
    return error is not None and error.fixable_by == "model" and not isinstance(error, OutcomeUnknown)


def check(pipeline: Pipeline, call: Call) -> Call:
    """The call in the phase to which the checks for name and arguments bring it; nothing runs.

    If these checks stand inside of a middleware, or are not from the standard stack, less is known.
    """
    try:
        found = pipeline.resolve(call)
        if not isinstance(found, ResolvedCall):
            return call
        valid = pipeline.validate(found)
    except Exception:  # noqa: BLE001  # a bug in a user's check; the call itself will report it
        return call
    return valid if isinstance(valid, ValidCall) else found


def find_repeat(identity: Identity, ended: Sequence[Request]) -> Request | None:
    """The request that is over and that the call asks for once more.

    A model that is asked for one of its calls tends to send all of them again. An effect that happened, or may have,
    must not run twice; a read that succeeded may run again, so it is not a repeat.
    """
    for request in ended:
        tool = request.tool
        is_read = tool is not None and tool.effect == "read"
        if is_read and request.error is None:
            continue
        if tool is not None and tool.effect == "keyed" and isinstance(request.error, (TimedOut, Transient)):
            continue  # it runs with the key of the lost call
        if request.identity is not None and request.identity.is_same(identity):
            return request
    return None


def _has_tool(request: Request, call: Call) -> bool:
    tool = request.tool
    meant: Tool[..., Any] | None = getattr(call, "tool", None)
    if tool is not None and meant is not None:
        return tool.name == meant.name
    return request.call.name == call.name or (tool is not None and call.name in (tool.name, *tool.aliases))


def _has_id(request: Request, call: Call) -> bool:
    return bool(call.id) and call.id in (request.call.id, request.first.id)


def _has_id_and_argument(request: Request, call: Call) -> bool:
    return _has_id(request, call) and _score(request, call)[0] > 0


def _was_suggested(request: Request, call: Call) -> bool:
    meant: Tool[..., Any] | None = getattr(call, "tool", None)
    names = (call.name, call.name if meant is None else meant.name)
    if not isinstance(request.error, UnknownTool):
        return False
    suggestions = cast("UnknownTool", coerce_error_fields(request.error)).suggestions
    return any(type(name) is str and name in suggestions for name in names)


def _has_unknown_name(request: Request, _: Call) -> bool:
    return isinstance(request.error, UnknownTool)
