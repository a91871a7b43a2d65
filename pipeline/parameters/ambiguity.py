"""Schemas by which one value is read in many ways, each of which reads all that the value holds.

A union that holds itself, and whose branches are not told apart by a field, is read once for each branch at each level:
exponentially often, by pydantic and by jsonschema-rs alike, for valid arguments too. Such schemas are found when they
are compiled; the reading of a call is then estimated before it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

import attrs

from ..errors import InvalidParams, MalformedCall, Problem, SetupError
from .phrases import ANY_FORM, describe_value
from .schema import UNIONS, Form, JsonObject, is_array, is_object, resolve_ref

_ALONE = ("if", "then", "else", "not")  # keywords that hold one further schema of the same value
_ITEM_KEYWORDS = ("items", "contains", "additionalItems", "unevaluatedItems")
_NAMES, _ITEMS = "*", "[]"  # in place of a key: any other name, any item
_MAX_FORMS = 1_000  # schemas that apply to one value at one place
_MAX_PLACES = 5_000  # of one schema that are looked at
_LEVELS = 64  # of arguments: the default limit on their depth
_HARMLESS = 256  # times that one value may be read, however deep it is
_MANY = 10**9  # no more is counted
_SMALL = 100  # readings of a call whose mistakes are listed: each may be told once for each reading
_MOST = 10_000  # readings of a call, 2 µs each

_Parse: TypeAlias = "Callable[[object], Any]"


class _Child(NamedTuple):
    """A schema of values inside of a value."""

    branch: str  # of a union that a field tells apart: one of them is read; "": always read
    key: str
    place: int  # the identity of its node


@attrs.frozen
class Growth:
    """How many times as often a value is read as what holds it."""

    names: int  # for a value of an object
    items: int  # for an item of an array

    def count(self, arguments: object) -> int:
        """Estimate how often the parts of the arguments are read, all together; `_MOST` + 1 stands for any more."""
        total, weight = 0, 1
        level: list[tuple[Any, int]] = [(arguments, weight)]
        while level:
            below: list[tuple[Any, int]] = []
            for value, times in level:
                if is_object(value):
                    held, inner = list(value.values()), times * self.names
                elif is_array(value):
                    held, inner = value, times * self.items
                else:
                    continue
                total += times
                if total > _MOST or (held and inner > _MOST):
                    return _MOST + 1
                below += [(each, inner) for each in held if isinstance(each, (dict, list))]
            level = below
        return total


def find_growth(schema: Form, *, tagged: bool) -> Growth | None:
    """Find out whether values may be read very often by a schema.

    Args:
        schema: The whole schema.
        tagged: Whether whoever reads by it goes by the ``discriminator`` of a union, as pydantic does.

    Returns:
        None for nearly all schemas: every value is read a bounded number of times.

    Raises:
        SetupError: More than 1,000 subschemas apply to one place.
    """
    places = _list_places(schema, tagged=tagged)
    times = dict.fromkeys(places, 1)
    for _ in range(_LEVELS):
        grown = {place: _sum_children(children, times) for place, children in places.items()}
        if grown == times:
            return None
        times = grown
        if max(times.values()) > _HARMLESS:
            return Growth(_find_widest(places, items=False), _find_widest(places, items=True))
    return None


def _find_widest(places: Mapping[int, list[_Child]], *, items: bool) -> int:
    found = ([each for each in children if (each.key == _ITEMS) is items] for children in places.values())
    return max(_sum_children(children, {}) for children in found)


def _sum_children(children: list[_Child], times: Mapping[int, int]) -> int:
    """How often the value that is read most under a place is read, if `times` says that of what stands below."""
    sums: dict[tuple[str, str], int] = {}
    for each in children:
        sums[each.branch, each.key] = sums.get((each.branch, each.key), 0) + times.get(each.place, 1)
    most = 1
    for (branch, key), own in sums.items():
        total = own
        if branch:  # what stands beside a union applies too
            total += sums.get(("", key), 0)
        if key not in (_NAMES, _ITEMS):  # as what is said of all names
            total += sums.get((branch, _NAMES), 0)
        most = max(most, total)
    return min(most, _MANY)


def _list_places(schema: Form, *, tagged: bool) -> dict[int, list[_Child]]:
    """List the children of every place of a schema, by the identity of its node."""
    places: dict[int, list[_Child]] = {}
    pending: list[JsonObject] = [resolve_ref(schema, schema)]
    while pending and len(places) < _MAX_PLACES:
        node = pending.pop()
        if id(node) in places:
            continue
        children = places[id(node)] = []
        for branch, form in _list_forms(schema, node, tagged=tagged):
            for key, child in _list_inner(form):
                if found := resolve_ref(schema, child):
                    children.append(_Child(branch, key, id(found)))
                    pending.append(found)
    return places


def _list_forms(schema: Form, node: JsonObject, *, tagged: bool) -> Iterator[tuple[str, JsonObject]]:
    """Yield every subschema that applies to one value; one that is reached twice is yielded twice."""
    pending: list[tuple[Any, str, tuple[int, ...]]] = [(node, "", ())]
    count = 0
    while pending:
        found, branch, above = pending.pop()
        form = resolve_ref(schema, found)
        if not form or id(form) in above:
            continue
        count += 1
        if count > _MAX_FORMS:
            raise SetupError(f"more than {_MAX_FORMS} subschemas apply to one place, by allOf, anyOf, oneOf and $ref")
        yield branch, form
        inside = (*above, id(form))
        apart = tagged and "discriminator" in form
        for keyword in UNIONS:
            inner = form.get(keyword)
            for index, each in enumerate(inner if is_array(inner) else ()):
                pending.append((each, f"{branch}{index}/" if apart else branch, inside))
        dependent = form.get("dependentSchemas")
        alone = [form.get(keyword) for keyword in _ALONE] + (list(dependent.values()) if is_object(dependent) else [])
        pending += [(each, branch, inside) for each in alone if is_object(each)]


def _list_inner(form: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield what one subschema says of the values inside: under which key, and the schema there."""
    kinds = form.get("type", ("object", "array"))
    if "object" in kinds:
        named = form.get("properties")
        yield from ((f".{name}", child) for name, child in (named.items() if is_object(named) else ()))
        patterns = form.get("patternProperties")
        yield from ((_NAMES, child) for child in (patterns.values() if is_object(patterns) else ()))
        yield from ((_NAMES, form[key]) for key in ("additionalProperties", "unevaluatedProperties") if key in form)
    if "array" in kinds:
        first = form.get("prefixItems")
        items = [*(first if is_array(first) else ()), *(form[key] for key in _ITEM_KEYWORDS if key in form)]
        # The first items stand at places of their own: the same schema for each of them is no second reading.
        yield from ((_ITEMS, child) for child in {id(each): each for each in items}.values())


def bound_parse(parse: _Parse, read: _Parse, growth: Growth, is_valid: Callable[[Any], bool], schema: Form) -> _Parse:
    """Estimate what parsing takes before it begins.

    Args:
        parse: The parser.
        read: Arguments as sent -> a dict or a MalformedCall.
        growth: That of the schema.
        is_valid: The compiled JSON Schema, which says in a twentieth of the time that arguments are wrong.
        schema: What the model is shown.
    """

    def parse_bounded(arguments: object) -> Any:
        given = read(arguments)
        if type(given) is MalformedCall:
            return given
        times = growth.count(given)
        if times <= _SMALL:
            return parse(arguments)
        if times > _MOST:
            return MalformedCall("they are nested too deeply for a union whose forms no field tells apart")
        try:
            fits = is_valid(given)
        except (TypeError, ValueError):  # a value of Python's that JSON does not have
            fits = True
        return parse(arguments) if fits else _refuse(given, growth, schema, arguments)

    return parse_bounded


def _refuse(given: dict[str, Any], growth: Growth, schema: Form, sent: object) -> InvalidParams:
    """Name the parameters that may be wrong, since to list what is wrong inside of them would take too long."""
    deep = [name for name, value in given.items() if growth.count(value) > _SMALL // 4] or list(given)[:1]
    problems = (Problem(str(cast("object", name)), "anyOf", ANY_FORM, describe_value(given[name])) for name in deep)
    return InvalidParams(tuple(problems), sent=sent, schema=schema)
