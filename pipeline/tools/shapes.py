"""Names by shape: the one tool whose parameters take exactly what was sent, where no tool's name is like the model's.

A tool that was found so is suggested, and never run.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, cast

from ..base.foreign_values import or_default
from ..base.setup_error import SetupError
from ..parameters.limits import Limits
from ..parameters.reading import read_arguments
from ..parameters.schema import is_required
from ..parameters.spelling import is_opposite, split_words
from .definition import Tool

_COMMON = frozenset(("query", "path", "id", "name", "input"))  # one of these alone says nothing: many tools have it
_LOOKUPS = frozenset((
    "get", "list", "find", "estimate", "check", "search", "lookup", "look", "fetch", "read", "show", "view",
    "query", "count", "describe", "inspect", "compare", "calculate", "calc", "compute", "preview", "quote",
    "retrieve", "browse", "grep", "stat", "stats", "verify", "is", "has", "can", "who", "what", "which",
    "status", "info", "details", "history",
))  # fmt: skip
_CHANGES = frozenset((
    "create", "add", "insert", "update", "set", "edit", "modify", "change", "delete", "remove", "send", "write",
    "move", "rename", "cancel", "buy", "pay", "transfer", "upload", "publish", "invite", "reset", "restart",
    "enable", "disable", "approve", "reject", "assign", "register", "reserve", "purchase", "submit", "drop",
    "kill", "clear",
))  # fmt: skip
_MAX_CANDIDATES = 8  # tools with these parameters whose schemas are asked: among more, what was sent tells nothing
_MAX_REMEMBERED = 512  # sets of names
_MAX_NAME = 200  # characters of a name that is compared
_ABBREVIATION = 5  # letters of a word that is a command
_BOUNDS = Limits(bytes=20_000, depth=16, keys=500)  # of arguments that are read


class ShapeIndex:
    """The tools of a registry by the names of their parameters."""

    def __init__(self, tools: Iterable[Tool[..., Any]]) -> None:
        self._tools: list[tuple[Tool[..., Any], frozenset[str]]] = []  # with the required parameters
        self._takers: dict[str, int] = {}  # the tools that declare a parameter, as the bits of one number
        # The tools that may be the only one for these names, with what was shown then.
        self._remembered: tuple[Container[str], dict[frozenset[str], list[Tool[..., Any]]]] = (), {}
        for tool in tools:
            try:
                schema = tool.parameters.schema
            except SetupError:  # registered after the pipeline was built, and wrong: calls of it say so
                continue
            names = tool.parameters.names
            for name in names:
                self._takers[name] = self._takers.get(name, 0) | 1 << len(self._tools)
            self._tools.append((tool, frozenset([name for name in names if is_required(schema, (name,))])))

    @or_default(None)  # the type of a parameter may have a validator of its own
    def find(self, name: str, arguments: object, shown: Container[str]) -> str | None:
        """The only shown tool that takes the arguments as they are, unless the name is of another one.

        All its required parameters were sent, none that it does not declare, and the values validate.
        """
        kind = type(arguments)
        sent = cast("Mapping[str, Any]", arguments) if kind is dict else _read(arguments)
        if not sent or any(each not in self._takers for each in sent):
            return None
        before, known = self._remembered
        if before is not shown:
            known = dict[frozenset[str], list[Tool[..., Any]]]()
            self._remembered = shown, known
        fitting = known.get(names := frozenset(sent))
        if fitting is None:
            if len(known) >= _MAX_REMEMBERED:
                known.clear()
            fitting = known[names] = self._find_fitting(names, shown)
        if not fitting or _BOUNDS.check(arguments) is not None:
            return None
        taking = [tool for tool in fitting if type(tool.parse(arguments)) is dict]
        return taking[0].name if len(taking) == 1 and not _is_another(name, taking[0]) else None

    def _find_fitting(self, sent: frozenset[str], shown: Container[str]) -> list[Tool[..., Any]]:
        """The shown tools for these names; none, if whatever was sent with them says nothing."""
        takers = -1 if len(sent) > 1 or _COMMON.isdisjoint(sent) else 0
        for each in sent:
            takers &= self._takers[each]
        fitting: list[Tool[..., Any]] = []
        for tool, required in self._list(takers):
            if required <= sent and tool.name in shown:
                if len(fitting) == _MAX_CANDIDATES:
                    return []
                fitting.append(tool)
        # Of equal schemas both take it, or none.
        asked = [_without_words(tool.parameters.schema) for tool in fitting]
        return fitting if any(asked.count(each) == 1 for each in asked) else []

    def _list(self, takers: int) -> Iterator[tuple[Tool[..., Any], frozenset[str]]]:
        """Yield the tools of these bits."""
        while takers:
            lowest = takers & -takers
            yield self._tools[lowest.bit_length() - 1]
            takers ^= lowest


def _without_words(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: each for key, each in schema.items() if key not in ("title", "description")}


def _read(arguments: object) -> Mapping[str, Any] | None:
    if type(arguments) is not str or _BOUNDS.check(arguments) is not None:
        return None
    return read_arguments(arguments)


def _is_another(name: str, tool: Tool[..., Any]) -> bool:
    """Whether the name is of another tool: a sibling, the opposite, or a look-up where this one changes something.

    Siblings have the same words but one, or begin or end with the same word: ``get_user`` and ``get_order``,
    ``sphere_volume`` and ``cone_side_volume``. So are two words of a few letters, such as the commands ``mv`` and
    ``cp``; and any two single words, if the tool changes something.
    """
    asked, known = split_words(name[:_MAX_NAME]), split_words(tool.name)
    asks, answers = _looks_up(asked), _looks_up(known)
    if asks is True and (tool.effect != "read" or answers is False):
        return True
    if (asks is False and answers is True) or is_opposite(asked, known):
        return True
    ours, theirs = asked.split(), known.split()
    left, right = set(ours) - set(theirs), set(theirs) - set(ours)
    if len(left) <= 1 and len(right) <= 1:
        is_abbreviated = max(len(asked), len(known)) <= _ABBREVIATION
        return len(ours) > 1 or len(theirs) > 1 or (bool(ours) and (is_abbreviated or tool.effect != "read"))
    return bool(left and right) and (ours[0] == theirs[0] or ours[-1] == theirs[-1])


def _looks_up(words: str) -> bool | None:
    """Whether a name asks for a look-up, or for a change, by the first of its words that says it; None: none does."""
    return next((word in _LOOKUPS for word in words.split() if word in _LOOKUPS or word in _CHANGES), None)
