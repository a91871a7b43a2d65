"""Arguments as they may be recorded: without secrets, and as the application's own `redact` wants them.

In a tool that declares secrets only what stands at a declared place is shown. A name that the schema does not declare
may be a misspelt one of a secret, and a value of another type may hold it, so they are withheld.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import attrs

from ...event_loops import is_interrupt
from ...privacy import REDACTED, Redact
from ..reading import read_literal
from ..schema import Form, format_path, json_type
from .known_texts import TextCollector
from .secret_schemas import SecretSchema

_MAX_DEPTH = 64  # levels of arguments; what is deeper is withheld
_MAX_TEXT = 1_000_000  # characters of arguments sent as text; longer ones are withheld
_OPENING = ("{", "[")  # text that begins so may hold several values
_SHOWN = (bool, type(None))
_LISTS = (list, tuple, set, frozenset)


@attrs.frozen
class Redaction:
    """Takes out of one tool's arguments what may not be recorded.

    Args:
        schema: That of the tool. None: it declares no secrets, so that only ``hook`` changes something.
        hook: The application's own. None: there is none.
        collector: Gets each value that is withheld. None: nobody wants them.
    """

    schema: SecretSchema | None
    hook: Redact | None = None
    collector: TextCollector | None = None

    def redact(self, arguments: object) -> object:
        """The arguments of a call, in the form in which they were sent: text as text, anything else as it is."""
        if not isinstance(arguments, str):
            return self._redact(arguments, self._root(), [])
        if not arguments.strip():
            return arguments
        found = read_literal(arguments) if len(arguments) <= _MAX_TEXT else None
        if not isinstance(found, (dict, list)):  # no arguments: only the hook could tell what is in it
            return self._withhold(arguments) if self.schema is not None else self._ask(arguments, [])
        redacted = self._redact(found, self._root(), [])
        return json.dumps(redacted, ensure_ascii=False, default=str)

    def redact_at(self, forms: Sequence[Form] | None, value: object, path: str) -> object:
        """A value of the place that these subschemas apply to; with None nobody knows which place it is."""
        if self.schema is not None and forms is None:
            return self._withhold(value)
        return self._redact(value, forms or [], [path] if path else [])

    def _root(self) -> list[Form]:
        return [] if self.schema is None else self.schema.root()

    def _redact(self, value: Any, forms: Sequence[Form], path: list[int | str]) -> object:
        facts = None if self.schema is None else self.schema.facts(forms)
        if len(path) > _MAX_DEPTH or (facts is not None and facts.secret):
            return self._withhold(value)
        if self.collector is not None and self.collector.is_full:
            return REDACTED  # whoever collects does not look at what is left
        if facts is not None and facts.types and (kind := json_type(value)) and kind not in facts.types:
            return self._redact_text(value, forms, path)
        if isinstance(value, (Mapping, *_LISTS)):
            asked = self._ask_of_container(cast("object", value), path)
            if asked is not value:
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
        """A value of another type than the expected one: it may be, or hold, a secret that was meant for another place.

        Text may be the object that was expected, written as text.
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
            return {name: self._redact(each, [], [*path, name]) for name, each in value.items()}
        facts = schema.facts(forms)
        free = () if facts.closed else schema.free_child(forms)
        shown: dict[Any, object] = {}
        for name, each in value.items():
            child = schema.child(forms, name) if isinstance(name, str) else None
            if facts.secret_names:
                self._withhold(name)
                shown[f"{REDACTED} {len(shown) + 1}"] = self._withhold(each)
            elif child is not None:
                shown[name] = self._redact(each, child, [*path, name])
            elif facts.closed or name in schema.names:
                shown[name] = self._withhold(each, declared=False)
            else:
                shown[name] = self._redact(each, free, [*path, name])
        return shown

    def _redact_items(self, value: Iterable[Any], forms: Sequence[Form], path: list[int | str]) -> object:
        schema = self.schema
        if schema is None:
            return [self._redact(each, [], [*path, index]) for index, each in enumerate(value)]
        return [self._redact(each, schema.item(forms, index), [*path, index]) for index, each in enumerate(value)]

    def _withhold(self, value: object, *, declared: bool = True) -> str:
        if self.collector is not None:
            self.collector.add(value, declared=declared)
        return REDACTED

    def _ask_of_container(self, value: object, path: list[int | str]) -> object:
        """What the hook makes of an object or array; one that is made for texts may raise, and is asked for those."""
        if self.hook is None or not path:
            return value
        try:
            return self.hook(format_path(path), value)
        except BaseException as exc:  # the application's own function
            if is_interrupt(exc):
                raise
            return value

    def _ask(self, value: object, path: list[int | str]) -> object:
        if self.hook is None:
            return value
        try:
            return self.hook(format_path(path), value)
        except BaseException as exc:  # the application's own function
            if is_interrupt(exc):
                raise
            return REDACTED
