"""Redact arguments for reports, spans and logs: withhold secrets, and apply the application's own `redact`.

For a tool that declares secrets only values at declared places are shown. An undeclared name may be a misspelt
name of a secret, and a value of another type may hold the secret, so both are withheld.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, cast

import attrs

from ..base.foreign_values import FaultBarrier
from ..parameters.reading import read_literal
from ..parameters.schema import Form, format_path, json_type
from .masking import SecretValues
from .public_text import REDACTED, Redact
from .secret_places import Facts, SecretSchema

_MAX_DEPTH = 64  # levels of arguments; what is deeper is withheld
_MAX_PARTS = 20_000  # values of one call; the rest, of a call that was refused for its size, is withheld
_SILENTLY = FaultBarrier(stops=BaseException)
_MAX_TEXT = 1_000_000  # characters of arguments sent as text; longer ones are withheld
_OPENING = ("{", "[")  # text that begins so may hold several values
_SHOWN = (bool, type(None))
_SCALARS = frozenset((str, int, float, bool, type(None)))
_LISTS = (list, tuple, set, frozenset)


@attrs.frozen
class Redaction:
    """Replaces the values in one tool's arguments that may not be recorded."""

    schema: SecretSchema | None  # None: it declares no secrets, so only `hook` changes values
    hook: Redact | None = None  # the application's own `redact`
    collector: SecretValues | None = None  # gets each withheld value
    _parts: Iterator[int] = attrs.field(factory=count, init=False, repr=False, eq=False)  # values looked at so far

    def redact(self, arguments: object) -> object:
        """Redact the arguments of a call. Arguments that were sent as text come back as text."""
        if not isinstance(arguments, str):
            return self._redact(arguments, self._root(), [])
        if not arguments.strip():
            return arguments
        found = read_literal(arguments) if len(arguments) <= _MAX_TEXT else None
        if not isinstance(found, (dict, list)):  # not an object: only the hook can judge it
            return self._withhold(arguments) if self.schema is not None else self._ask(arguments, [])
        redacted = self._redact(found, self._root(), [])
        return json.dumps(redacted, ensure_ascii=False, default=str)

    def redact_at(self, forms: Sequence[Form] | None, value: object, path: str) -> object:
        """Redact a value at the place of these subschemas; None: its place is unknown."""
        if self.schema is not None and forms is None:
            return self._withhold(value)
        return self._redact(value, forms or [], [path] if path else [])

    def _root(self) -> list[Form]:
        return [] if self.schema is None else self.schema.root()

    def _redact(self, value: Any, forms: Sequence[Form], path: list[int | str]) -> object:
        if next(self._parts) >= _MAX_PARTS:
            if self.collector is not None:
                self.collector.is_full = True  # there may be secrets in the rest
            return REDACTED
        facts = None if self.schema is None else self.schema.facts(forms)
        if len(path) > _MAX_DEPTH or (facts is not None and facts.secret):
            return self._withhold(value)
        if facts is not None and facts.types and (kind := json_type(value)) and kind not in facts.types:
            return self._redact_text(value, forms, path)
        if isinstance(value, (Mapping, *_LISTS)):
            container: object = cast("object", value)
            # A hook that handles texts only may raise here, and is asked for those in it.
            if path and (asked := self._ask(container, path, container)) is not container:
                return asked
            if isinstance(value, Mapping):
                return self._redact_object(cast("Mapping[Any, Any]", value), forms, path)
            return self._redact_items(cast("Iterable[Any]", value), forms, path)
        if facts is not None and facts.holds:
            return self._redact_text(value, forms, path)
        asked = self._ask(value, path)
        if self.hook is None or asked is not value or not isinstance(value, str):
            return asked
        held = read_literal(value) if value.lstrip().startswith(_OPENING) and len(value) <= _MAX_TEXT else None
        return json.dumps(self._redact(held, [], path), ensure_ascii=False, default=str) if held else value

    def _redact_text(self, value: object, forms: Sequence[Form], path: list[int | str]) -> object:
        """Redact a value of an unexpected type: it may be, or hold, a secret that was meant for another place.

        A text may hold the expected object as JSON.
        """
        if isinstance(value, _SHOWN):
            return self._ask(value, path)
        held = read_literal(value) if isinstance(value, str) and len(value) <= _MAX_TEXT else None
        if not isinstance(held, (dict, list)):
            return self._withhold(value)
        return json.dumps(self._redact(held, forms, path), ensure_ascii=False, default=str)

    def _redact_object(self, value: Mapping[Any, Any], forms: Sequence[Form], path: list[int | str]) -> object:
        schema = self.schema
        if schema is None:
            return {name: self._redact(each, [], [*path, name]) for name, each in islice(value.items(), _MAX_PARTS)}
        facts = schema.facts(forms)
        free = () if facts.names else schema.free_child(forms)
        of_free = schema.facts(free)
        shown: dict[Any, object] = {}
        for name, each in islice(value.items(), _MAX_PARTS):
            child = schema.child(forms, name) if isinstance(name, str) and name in facts.names else None
            if facts.secret_names:
                self._withhold(name)
                shown[f"{REDACTED} {len(shown) + 1}"] = self._withhold(each)
            elif child is not None:
                shown[name] = self._redact(each, child, [*path, name])
            elif facts.names or name in schema.names:
                shown[name] = self._withhold(each, declared=False)
            elif self._is_plain(each, of_free, path):
                shown[name] = each
            else:
                shown[name] = self._redact(each, free, [*path, name])
        return shown

    def _redact_items(self, value: Iterable[Any], forms: Sequence[Form], path: list[int | str]) -> object:
        schema = self.schema
        if schema is None:
            return [self._redact(each, [], [*path, index]) for index, each in enumerate(islice(value, _MAX_PARTS))]
        first = schema.count_first(forms)
        rest = schema.item(forms, first)  # all further items have the same subschemas
        of_rest = schema.facts(rest)
        shown: list[object] = []
        for index, each in enumerate(islice(value, _MAX_PARTS)):
            if index >= first and self._is_plain(each, of_rest, path):
                shown.append(each)
            else:
                inner = rest if index >= first else schema.item(forms, index)
                shown.append(self._redact(each, inner, [*path, index]))
        return shown

    def _is_plain(self, value: object, facts: Facts, path: list[int | str]) -> bool:
        """Whether a value is seen to be no secret: a scalar of the right type, at a place that holds none."""
        if self.hook is not None or facts.secret or facts.holds or len(path) >= _MAX_DEPTH:
            return False
        return type(value) in _SCALARS and (not facts.types or json_type(value) in facts.types)

    def _withhold(self, value: object, *, declared: bool = True) -> str:
        if self.collector is not None:
            self.collector.add(value, () if self.schema is None else self.schema.all_names, declared=declared)
        return REDACTED

    def _ask(self, value: object, path: list[int | str], if_raised: object = REDACTED) -> object:
        if self.hook is None:
            return value
        with _SILENTLY:  # the application's own function
            return self.hook(format_path(path), value)
        return if_raised
