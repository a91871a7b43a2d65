"""Facts that a repair needs: what the schema expects in a value's place, and how the arguments were sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import attrs

from .exact_json import Written
from .schema import Form, is_array, json_type
from .spelling import Choice

if TYPE_CHECKING:
    from .coercions import Coercion, Rule

_FORMATS = (  # JSON Schema 2020-12, validation vocabulary, section 7.3, and common synonyms
    "date-time", "datetime", "timestamp", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname",
    "ipv4", "ipv6", "uri", "uri-reference", "url", "iri", "iri-reference", "uuid", "json-pointer",
)  # fmt: skip


@attrs.frozen(eq=False)
class Expected:
    """The value that the schema expects at one place.

    Attributes:
        forms: The subschemas that apply there.
        types: The allowed JSON Schema types; empty: unknown.
        items: Returns the expectation for an item, if the value is an array.
        name: The name of the parameter or property; None for an item of an array.
        optional: Whether the parameter or property may be left out.
        coercions: The rules that may apply to a value, by its type; filled when first needed.
    """

    forms: tuple[Form, ...]
    types: frozenset[str]
    items: Callable[[], Expected]
    name: str | None
    optional: bool
    coercions: dict[type, tuple[tuple[Rule, Coercion], ...]] = attrs.field(init=False, factory=dict[Any, Any])

    @classmethod
    def of(cls, forms: Iterable[Form], items: Callable[[], Expected], name: str | None, *, optional: bool) -> Expected:
        """Read the subschemas that apply. Never raises: a value that is not a schema leaves the types unknown."""
        forms = tuple(forms)
        return cls(forms, frozenset(kind for form in forms for kind in _list_types(form)), items, name, optional)

    def values(self) -> list[Any]:
        """List the allowed values; empty if the schema has no ``enum`` or ``const``."""
        return [value for form in self.forms for value in _list_values(form)]

    @property
    def takes_any_text(self) -> bool:
        """Whether text other than the listed values is allowed."""
        return any("string" in _list_types(form) for form in self.forms if "enum" not in form and "const" not in form)

    @property
    def has_format(self) -> bool:
        """Whether text must have a format, such as a date's, that numbers and booleans cannot have."""
        return any(form.get("format") in _FORMATS for form in self.forms)


@attrs.define(eq=False)
class Sent:
    """Facts about one call's arguments as they were sent, kept while they are repaired."""

    written: Written
    _choices: dict[tuple[int, ...], Choice] | None = None  # by the ids of the forms

    def read_choice(self, expected: Expected) -> Choice:
        """Fold the allowed texts, once for all values of the call."""
        if self._choices is None:
            self._choices = {}
        key = tuple(map(id, expected.forms))
        if (known := self._choices.get(key)) is None:
            known = self._choices[key] = _fold_choice(expected)
        return known


class _Unwritten(Sent):
    """Stands for arguments that came as a mapping: their spelling is unknown. Calls share it, so it caches nothing."""

    def read_choice(self, expected: Expected) -> Choice:
        return _fold_choice(expected)


UNWRITTEN = _Unwritten(Written())


def _fold_choice(expected: Expected) -> Choice:
    return Choice(frozenset(each for each in expected.values() if isinstance(each, str)))


def _list_values(form: Form) -> list[Any]:
    enum = form.get("enum")
    values = [*enum] if is_array(enum) else []
    return [*values, form["const"]] if "const" in form else values


def _list_types(form: Form) -> Iterable[str]:
    declared = form.get("type")
    if isinstance(declared, str):
        return (declared,)
    if is_array(declared):
        return tuple(declared)
    return {json_type(each) for each in {type(each): each for each in _list_values(form)}.values()}
