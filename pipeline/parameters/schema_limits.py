"""Limits on schemas, so that no call can block the event loop.

A remote server may send a schema that was made to block the process. Pydantic and jsonschema-rs validate a recursive
union without a discriminator once for each branch at each level, which takes exponential time even for valid arguments.
Such unions are found when a schema is compiled, and the time of a call is estimated before it is validated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

import attrs

from ..base.setup_error import SetupError
from ..engine.errors import InvalidParams, MalformedCall, Problem
from .limits import MAX_FLAT
from .problems import ANY_FORM, describe_value
from .references import REFERENCES, References
from .schema import UNIONS, Form, JsonObject, is_array, is_object, resolve_ref

_MAX_DEPTH = 100  # levels of objects and arrays in the schema itself
_MAX_NODES = 100_000  # objects, arrays and values
_MAX_PATTERN = 2_000  # characters of a regular expression or a reference
_MAX_PATHS = 20_000_000  # characters of the paths of all values; a validator keeps them
_LIMITED_TEXTS = ("pattern", *REFERENCES)
_LIMITED = frozenset((*_LIMITED_TEXTS, "patternProperties"))
_NO_TEXT = frozenset(("integer", "number", "boolean", "null"))
_IN_PLACE = frozenset(("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"))

# --- Growth: how often a value is read ---
_ALONE = ("if", "then", "else", "not")  # keywords with one further schema for the same value
_DEPENDENT = ("dependentSchemas", "dependencies")  # keywords with such a schema under each name
_ITEM_KEYWORDS = ("prefixItems", "items", "contains", "additionalItems", "unevaluatedItems")
_NAMES, _ITEMS = "*", "[]"  # in place of a key: any other name, any item
_MAX_FORMS = 1_000  # schemas that apply to one value at one place
_MAX_WALKED = 200_000  # of all places of one schema
_MAX_PATTERNS = 100  # for the names of one place
_MAX_SKIPPED = 1_000  # references to references
_LEVELS = 64  # of arguments: the default limit on their depth
_FEW = 10  # objects in a schema
_HARMLESS = 256  # times that one value may be read, at any depth
_MANY = 10**9  # the count stops here
_SMALL = 100  # readings; with more, problems are not listed: each could appear once for each reading
_MOST = 10_000  # readings of a call, 2 µs each

_Parse: TypeAlias = "Callable[[object], Any]"


def check_schema(schema: object, name: str) -> None:
    """Refuse a schema that is too large to walk through. Works without recursion.

    Args:
        schema: The schema, not checked so far.
        name: The tool's name, for the error.

    Raises:
        SetupError: It has more than 100 levels or 100,000 values, a pattern or reference of more than 2,000
            characters, or names that make paths of more than 20,000,000 characters in all.
    """
    level: list[tuple[Any, int]] = [(schema, 0)]  # with the characters of the path to it
    nodes = depth = paths = 0
    while level:
        depth += 1
        nodes += len(level)
        if depth > _MAX_DEPTH:
            raise SetupError(
                f"{name}: `parameters` must have at most {_MAX_DEPTH} levels, and has more, or holds itself"
            )
        if nodes > _MAX_NODES:
            raise SetupError(f"{name}: `parameters` must hold at most {_MAX_NODES} values, and holds more")
        below: list[tuple[Any, int]] = []
        for node, size in level:
            paths += size
            if isinstance(node, Mapping):
                held = cast("Mapping[Any, Any]", node)
                below += [(each, size + len(str(key))) for key, each in held.items()]
                if not _LIMITED.isdisjoint(held):
                    texts = [*map(held.get, _LIMITED_TEXTS), *_list_names(held.get("patternProperties"))]
                    if any(isinstance(each, str) and len(each) > _MAX_PATTERN for each in texts):
                        raise SetupError(
                            f"{name}: a pattern or a reference must have at most {_MAX_PATTERN} characters, and one "
                            "has more"
                        )
            elif isinstance(node, (list, tuple)):
                below += [(each, size) for each in cast("list[Any]", node)]
        if paths > _MAX_PATHS:
            raise SetupError(f"{name}: its names are so long that the paths have more than {_MAX_PATHS} characters")
        level = below


def is_flat(schema: Form) -> bool:
    """Whether a quick look at the schema shows that valid arguments have one level and at most 32 names."""
    if schema.get("additionalProperties") is not False or not _IN_PLACE.isdisjoint(schema):
        return False
    properties = schema.get("properties", {})
    return len(properties) <= MAX_FLAT and all(_is_scalar(schema, each) for each in properties.values())


def _is_scalar(schema: Form, node: Any) -> bool:
    form = resolve_ref(schema, node)
    branches = form.get("anyOf")
    if branches:
        return all("anyOf" not in resolve_ref(schema, each) and _is_scalar(schema, each) for each in branches)
    kinds = form.get("type")
    named = {kinds} if isinstance(kinds, str) else set(kinds or ())
    return bool(named) and named.isdisjoint(("array", "object"))


def list_texts(schema: Form) -> tuple[str, ...]:
    """List the names of the parameters in a flat schema that may be text."""
    kinds = {name: resolve_ref(schema, node).get("type") for name, node in schema.get("properties", {}).items()}
    return tuple(name for name, kind in kinds.items() if not isinstance(kind, str) or kind not in _NO_TEXT)


def _list_names(node: object) -> list[Any]:
    return list(cast("Mapping[Any, Any]", node)) if isinstance(node, Mapping) else []


# --- Growth: recursive unions whose validation time grows exponentially with depth ---


class _Child(NamedTuple):
    """A schema for values inside of a value."""

    branch: str  # in a union with a discriminator, where only one branch is read; "": always read
    key: str
    place: int  # the id of its node


@attrs.frozen
class Growth:
    """Reads of an inner value for each read of its container.

    Attributes:
        names: Times for a value in an object.
        items: Times for an item of an array.
    """

    names: int
    items: int

    def is_too_slow(self, value: object) -> bool:
        """Whether the parts of a value are read more often than those of any call may be."""
        return self.count(value) > _MOST

    def count(self, arguments: object) -> int:
        """Estimate how often all parts of the arguments are read together; at most `_MOST` + 1."""
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


def find_growth(schema: Form, *, tagged: bool) -> tuple[int, Growth | None]:
    """Detect recursive unions whose validation time grows exponentially with depth.

    Args:
        schema: The whole schema.
        tagged: Whether the validator follows the ``discriminator`` of a union, as pydantic does.

    Returns:
        How often one value is read at most, the branches of its own union included, if that is bounded. The second part
        is None for nearly all schemas.

    Raises:
        SetupError: More than 1,000 subschemas apply to one place, or more than 200,000 to all places; more
            than 100 patterns are for the names of one place.
    """
    references = References(schema)
    few = _HARMLESS if tagged else _FEW  # each reading of a value needs a subschema of its own
    if not references.count and references.objects <= few:
        return references.objects, None
    places, forms = _list_places(schema, references, tagged=tagged)
    places = {place: children for place, children in places.items() if children}
    for most in _count_readings(places, dict.fromkeys(places, 1)):
        if most > _HARMLESS:
            return most, Growth(_find_widest(places, items=False), _find_widest(places, items=True))
    return max(_count_readings(places, forms)), None


def _count_readings(places: Mapping[int, list[_Child]], least: dict[int, int]) -> Iterator[int]:
    """Yield the readings of the most read value, level by level from the innermost one outwards."""
    times = least
    for _ in range(_LEVELS):
        grown = least | {place: max(least[place], _sum_children(children, times)) for place, children in places.items()}
        yield max(grown.values(), default=1)
        if grown == times:
            break
        times = grown


def _find_widest(places: Mapping[int, list[_Child]], *, items: bool) -> int:
    found = ([each for each in children if (each.key == _ITEMS) is items] for children in places.values())
    return max((_sum_children(children, {}) for children in found), default=1)


def _sum_children(children: list[_Child], times: Mapping[int, int]) -> int:
    """Return how often the most read value below a place is read, given the `times` of the places below."""
    sums: dict[tuple[str, str], int] = {}
    for each in children:
        sums[each.branch, each.key] = sums.get((each.branch, each.key), 0) + times.get(each.place, 1)
    most = 1
    for (branch, key), own in sums.items():
        total = own
        if branch:  # schemas beside the union apply too
            total += sums.get(("", key), 0)
        if key not in (_NAMES, _ITEMS):  # schemas for all names apply too
            total += sums.get((branch, _NAMES), 0)
        most = max(most, total)
    return min(most, _MANY)


def _list_places(
    schema: Form, references: References, *, tagged: bool
) -> tuple[dict[int, list[_Child]], dict[int, int]]:
    """List the children of every place of a schema, and count the subschemas there, by the id of its node."""
    places: dict[int, list[_Child]] = {}
    forms: dict[int, int] = {}
    pending: list[JsonObject] = [schema if is_object(schema) else dict(schema)]
    walked = 0
    while pending:
        node = pending.pop()
        if id(node) in places:
            continue
        children = places[id(node)] = []
        patterns, before = 0, walked
        for branch, form in _list_forms(references, node, tagged=tagged):
            patterns += len(_list_names(form.get("patternProperties")))
            for key, child in _list_inner(form):
                if is_object(child) and child:
                    found = _skip_references(references, child)
                    children.append(_Child(branch, key, id(found)))
                    pending.append(found)
            walked += 1
        forms[id(node)] = walked - before
        walked += len(children)
        if patterns > _MAX_PATTERNS:
            raise SetupError(f"more than {_MAX_PATTERNS} patterns apply to the names of one place")
        if walked > _MAX_WALKED:
            raise SetupError(f"more than {_MAX_WALKED} subschemas apply to all places together")
    return places, forms


def _skip_references(references: References, node: JsonObject) -> JsonObject:
    """Return the target of a node that is nothing but a reference, so that equal places are one."""
    for _ in range(_MAX_SKIPPED):
        targets = references.find(node) if len(node) == 1 else ()
        if len(targets) != 1:
            break
        node = targets[0]
    return node


def _list_forms(references: References, node: JsonObject, *, tagged: bool) -> Iterator[tuple[str, JsonObject]]:
    """Yield every subschema that applies to one value, as often as it is reached."""
    pending: list[tuple[Any, str, tuple[int, ...]]] = [(node, "", ())]
    count = 0
    while pending:
        form, branch, above = pending.pop()
        if not is_object(form) or id(form) in above:
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
        alone = [*references.find(form), *(form.get(keyword) for keyword in _ALONE)]
        for keyword in _DEPENDENT:
            dependent = form.get(keyword)
            alone += dependent.values() if is_object(dependent) else ()
        pending += [(each, branch, inside) for each in alone if is_object(each)]


def _list_inner(form: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield the schemas that one subschema has for inner values, each with its key; also those beside another type."""
    named = form.get("properties")
    yield from ((f".{name}", child) for name, child in (named.items() if is_object(named) else ()))
    patterns = form.get("patternProperties")
    yield from ((_NAMES, child) for child in (patterns.values() if is_object(patterns) else ()))
    yield from ((_NAMES, form[key]) for key in ("additionalProperties", "unevaluatedProperties") if key in form)
    given = [form[key] for key in _ITEM_KEYWORDS if key in form]
    # Each of the first items has its own place, so the same schema for several of them counts once. `items` may be a
    # list of them in the drafts before 2020-12.
    items = [each for held in given for each in (held if is_array(held) else (held,))]
    yield from ((_ITEMS, child) for child in {id(each): each for each in items}.values())


def bound_parse(parse: _Parse, read: _Parse, growth: Growth, is_valid: Callable[[Any], bool], schema: Form) -> _Parse:
    """Wrap a parser: estimate the time first, and refuse arguments that would take too long.

    Args:
        parse: The parser.
        read: Arguments as sent -> a dict or a MalformedCall.
        growth: The growth of the schema.
        is_valid: The check by the compiled JSON Schema. It finds that arguments are wrong in a twentieth of the time.
        schema: The schema that the model sees.
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
        except (TypeError, ValueError):  # a Python value that JSON does not have
            fits = True
        return parse(arguments) if fits else _refuse(given, growth, schema, arguments)

    return parse_bounded


def _refuse(given: dict[str, Any], growth: Growth, schema: Form, sent: object) -> InvalidParams:
    """Report the parameters that may be wrong; to list the problems inside them would take too long."""
    deep = [name for name, value in given.items() if growth.count(value) > _SMALL // 4] or list(given)[:1]
    problems = (Problem(str(cast("object", name)), "anyOf", ANY_FORM, describe_value(given[name])) for name in deep)
    return InvalidParams(tuple(problems), sent=sent, schema=schema)
