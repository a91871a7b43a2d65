"""The expectations of a schema at a place, and the facts about the arguments as they were sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import attrs

from .number_tokens import Written
from .schema import Form, is_array, json_type
from .spelling import Choice

if TYPE_CHECKING:
    from .coercions import Coercion, Rule

_FORMATS = (  # JSON Schema 2020-12, validation vocabulary, section 7.3, and usual names for the same
    "date-time", "datetime", "timestamp", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname",
    "ipv4", "ipv6", "uri", "uri-reference", "url", "iri", "iri-reference", "uuid", "json-pointer",
)  # fmt: skip


@attrs.frozen(eq=False)
class Expected:
    """The expectations of the schema at one place."""

    forms: tuple[Form, ...]
    types: frozenset[str]  # JSON Schema types that are allowed; empty: not known
    items: Callable[[], Expected]  # what it expects of the items, if the place holds an array
    name: str | None  # of the parameter or property; None for an item of an array
    optional: bool  # a parameter or property that may be left out
    # The rules that may apply to a value, by the value's type; filled when first needed.
    coercions: dict[type, tuple[tuple[Rule, Coercion], ...]] = attrs.field(init=False, factory=dict[Any, Any])

    @classmethod
    def of(cls, forms: Iterable[Form], items: Callable[[], Expected], name: str | None, *, optional: bool) -> Expected:
        """Read the subschemas that apply. Never raises; anything that is not a schema has no known types."""
        forms = tuple(forms)
        return cls(forms, frozenset(kind for form in forms for kind in _list_types(form)), items, name, optional)

    def values(self) -> list[Any]:
        """List the values to choose from; empty where the schema names none."""
        return [value for form in self.forms for value in _list_values(form)]

    @property
    def takes_any_text(self) -> bool:
        """Whether text is allowed that is none of the values to choose from."""
        return any("string" in _list_types(form) for form in self.forms if "enum" not in form and "const" not in form)

    @property
    def has_format(self) -> bool:
        """Whether text must have a format that no number and no boolean has, such as a date."""
        return any(form.get("format") in _FORMATS for form in self.forms)


@attrs.define(eq=False)
class Sent:
    """The facts about the arguments of one call while they are repaired."""

    written: Written
    _choices: dict[tuple[int, ...], Choice] | None = None  # by the identities of the forms

    def read_choice(self, expected: Expected) -> Choice:
        """Fold the texts to choose from, once for all values of the call."""
        if self._choices is None:
            self._choices = {}
        key = tuple(map(id, expected.forms))
        if (known := self._choices.get(key)) is None:
            known = self._choices[key] = _fold_choice(expected)
        return known


class _Unwritten(Sent):
    """The facts about arguments that came as a mapping: none. All calls share it, so it keeps nothing."""

    def read_choice(self, expected: Expected) -> Choice:
        return _fold_choice(expected)


UNWRITTEN = _Unwritten(Written())


def _fold_choice(expected: Expected) -> Choice:
    return Choice.of(each for each in expected.values() if isinstance(each, str))


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
