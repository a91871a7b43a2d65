"""Calls in the arguments of another call, as a batch has them: their secrets are those of the tools that they name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from operator import is_
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from ..privacy import REDACTED

if TYPE_CHECKING:
    from ..parameters.secrets.known_texts import TextCollector
    from ..parameters.secrets.secret_guard import SecretGuard

_NAMES: Final = ("tool", "tool_name", "name", "requested_tool", "function")  # keys of the name of a tool
_ARGUMENTS: Final = frozenset(("args", "arguments", "parameters", "input"))  # keys of its arguments
_OPENING: Final = ("{", "[")  # text that begins so may hold a call
_MAX_DEPTH = 16  # levels in which a call is looked for
_MAX_TEXT = 1_000_000  # characters of arguments sent as text


@attrs.frozen
class NestedCalls:
    """Takes the secrets of nested calls out of the arguments that hold them.

    Args:
        find: The guard of the tool of that name; None if it declares no secrets.
            Raises LookupError if there is no such tool, and nobody knows which of its arguments are secret.
        collector: Gets what is taken out.
    """

    find: Callable[[str], SecretGuard | None]
    collector: TextCollector

    def redact(self, arguments: object) -> object:
        """The arguments; the same object where nothing is taken out."""
        if not isinstance(arguments, str):
            return self._redact(arguments, _MAX_DEPTH)
        held = _read(arguments)
        redacted = self._redact(held, _MAX_DEPTH)
        return arguments if redacted is held else json.dumps(redacted, ensure_ascii=False, default=str)

    def _redact(self, value: Any, depth: int) -> object:
        if depth == 0:
            return value
        if isinstance(value, (list, tuple)):
            items = cast("list[Any]", value)
            made = [self._redact(each, depth - 1) for each in items]
            return cast("object", value) if all(map(is_, made, items)) else made
        if isinstance(value, str) and _may_name_arguments(value) and value.lstrip().startswith(_OPENING):
            return self.redact(value)
        if not isinstance(value, Mapping):
            return value
        found = cast("Mapping[Any, Any]", value)
        name = next((found[key] for key in _NAMES if isinstance(found.get(key), str)), None)
        made_of = {
            key: self._redact_arguments(name, each)
            if name is not None and key in _ARGUMENTS
            else self._redact(each, depth - 1)
            for key, each in found.items()
        }
        return found if all(made_of[key] is found[key] for key in made_of) else made_of

    def _redact_arguments(self, name: str, arguments: Any) -> object:
        try:
            guard = self.find(name)
        except LookupError:
            self.collector.add(arguments, declared=False)
            return REDACTED
        if guard is None:
            return self._redact(arguments, _MAX_DEPTH - 1)
        self.collector.texts |= guard.collect(arguments).texts
        return guard.redact(arguments)


def may_nest(arguments: object) -> bool:
    """Whether arguments may hold a call, by a quick look."""
    if isinstance(arguments, str):
        return _may_name_arguments(arguments)
    if not isinstance(arguments, Mapping):
        return False
    held = cast("Mapping[Any, Any]", arguments)
    return not _ARGUMENTS.isdisjoint(held) or any(map(_may_hold_call, held.values()))


def _may_name_arguments(text: str) -> bool:
    return any(key in text for key in _ARGUMENTS)


def _may_hold_call(value: object) -> bool:
    return isinstance(value, (list, tuple, Mapping)) or (isinstance(value, str) and value.lstrip().startswith(_OPENING))


def _read(text: str) -> Any:
    from ..parameters.reading import read_literal

    return read_literal(text) if len(text) <= _MAX_TEXT else None
