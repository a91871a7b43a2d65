"""The readings of arguments under a JSON Schema: everything that somebody could take them for.

It shares no code with the repairs, and is meant to find more readings than they use: a comma may separate values, or
stand inside of a number. Only where there is exactly one reading that fits the schema may a repair give it.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, TypeAlias, cast

import attrs
import jsonschema_rs

Schema: TypeAlias = dict[str, Any]
WRAPPERS = frozenset(
    [
        *("arguments", "args", "kwargs", "parameters", "params", "properties", "input", "inputs", "toolinput"),
        *("toolargs", "toolarguments", "toolparameters", "functionargs", "functionarguments", "functionparameters"),
    ]
)
PREFIXES = ("params", "parameters", "args", "arguments", "kwargs")
NO_NUMBER = frozenset(("date", "date-time", "time", "duration", "uuid", "email", "uri", "ipv4", "ipv6", "hostname"))
TYPES = frozenset(
    [
        *("string", "str", "text", "integer", "int", "number", "float", "double", "boolean", "bool"),
        *("array", "list", "tuple", "object", "dict"),
    ]
)
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_MOST = 200  # readings of one array


@attrs.frozen
class Number:
    """A number as it is written."""

    token: str
    lost: bool = False  # it came in a mapping, where its spelling is not known

    @property
    def value(self) -> Decimal:
        return Decimal(self.token)


def parse(text: str) -> Any:
    """Read JSON text, with its numbers as they are written, and the names that stand twice in one object as pairs."""
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=_pair)


def forget(node: Any) -> Any:
    """The same value as if it had come in a mapping."""
    if isinstance(node, Number):
        whole = re.fullmatch(r"-?\d+", node.token)
        return Number(str(int(node.token))) if whole else Number(repr(float(node.token)), lost=True)
    if isinstance(node, list):
        return [forget(each) for each in cast("list[Any]", node)]
    if isinstance(node, dict):
        return {key: forget(each) for key, each in cast("dict[str, Any]", node).items()}
    return node


def canonical(value: Any) -> str:
    """Text by which values are compared: numbers by their exact value, and true is no 1."""
    match value:
        case Number():
            return _canonical_number(value.value)
        case bool() | None | str():
            return json.dumps(value)
        case int() | float():
            return _canonical_number(Decimal(repr(value)) if isinstance(value, float) else Decimal(value))
        case dict():
            pairs = sorted(cast("dict[str, Any]", value).items())
            return "{" + ",".join(f"{json.dumps(key)}:{canonical(each)}" for key, each in pairs) + "}"
        case _:
            return "[" + ",".join(map(canonical, value)) + "]"


def fits(value: Any, schema: Schema) -> bool:
    """Whether a value fits a schema, by another library than the pipeline's own rules."""
    try:
        return _compile(json.dumps(schema)).is_valid(_plain(value))
    except (ValueError, OverflowError):  # a number that no float holds
        return False


@lru_cache
def _compile(schema: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(json.loads(schema), offline=True, validate_formats=True)


def read_value(node: Any, schema: Schema, name: str = "") -> dict[str, Any]:
    """List all readings of one value that fit its schema, by their canonical text. A value that fits has no other."""
    if fits(node, schema):
        return {canonical(node): node}
    found: dict[str, Any] = {}
    for branch in schema.get("anyOf", [schema]):
        for reading in _read(node, branch, name, schema):
            if fits(reading, schema):
                found[canonical(reading)] = reading
    return found


def read_arguments(node: Any, schema: Schema) -> dict[str, Any]:
    """List all readings of the arguments of a closed schema."""
    properties, required = schema["properties"], schema.get("required", [])
    wholes = [node, *_open(node, properties, 0), *_assign(node, schema)]
    found: dict[str, Any] = {}
    for whole in wholes:
        placed = _place(whole, properties, required)
        if placed is None:
            continue
        ways: list[list[tuple[str, Any]]] = []
        for key, value in placed.items():
            if key not in required and _is_nothing(_unwrap_nothing(value, properties[key], key), properties[key]):
                continue
            ways.append([(key, each) for each in read_value(value, properties[key], key).values()])
        for way in itertools.islice(itertools.product(*ways), _MOST):
            if fits(dict(way), schema):
                found[canonical(dict(way))] = dict(way)
    return found


def read_numerals(text: str) -> set[Decimal]:
    """Every number that a text may stand for, in any notation."""
    sent, found = text.strip(), set[Decimal]()
    spellings = {sent, sent.strip("()"), sent.lstrip("+#$€"), sent.rstrip("%$€- ")}
    spellings |= {"-" + sent.strip("()")} if sent.startswith("(") else set()
    spellings |= {"-" + sent.rstrip("-")} if sent.endswith("-") else set()
    for each in list(spellings):
        spellings.add("".join(str(unicodedata.digit(c, -1)) if c.isdigit() else c for c in each).replace("\u2212", "-"))
    for each in spellings:
        if _JSON_NUMBER.fullmatch(each):
            found.add(Decimal(each))
        if re.fullmatch(r"[+-]?\d{1,3}([.,_ ]\d{3})+", each):
            found.add(Decimal(re.sub(r"[.,_ ]", "", each)))
        if re.fullmatch(r"[+-]?\d+,\d+", each):
            found.add(Decimal(each.replace(",", ".")))
        if re.fullmatch(r"[+-]?(0[xob])?[0-9a-fA-F_]+", each):
            try:
                found.add(Decimal(int(each, 0)))
            except (ValueError, InvalidOperation):
                continue
    return found


def _read(node: Any, schema: Schema, name: str, whole: Schema) -> Iterator[Any]:  # noqa: C901  # a case a type
    types = _list_types(schema)
    match node:
        case str():
            yield from _read_text(node, schema, types, whole)
        case Number():
            if "integer" in types or "number" in types:
                yield Number(str(node.value)) if node.value != int(node.value) else int(node.value)
            elif "string" in types and schema.get("format") not in NO_NUMBER:
                yield from _spell(node, schema)
        case bool():
            if "string" in types and schema.get("format") not in NO_NUMBER:
                yield "true" if node else "false"
        case list() if "array" in types:
            ways = [read_value(each, schema.get("items", {})).values() for each in cast("list[Any]", node)]
            yield from map(list, itertools.islice(itertools.product(*ways), _MOST))
        case dict():
            yield from _read_object(cast("dict[str, Any]", node), schema, name, whole)
        case _:
            pass
    if "array" in types and name and isinstance(node, str) and "string" in _list_types(schema.get("items", {})):
        yield from _read_loosely(node, schema.get("items", {}))
    if "array" in types and name and isinstance(node, (str, Number, bool)) and not _is_word_for_nothing(node):
        yield from ([each] for each in read_value(node, schema.get("items", {})).values() if _is_of_items(node, schema))


_NO_ITEM = re.compile(
    r"\W*(?:n ?[/.]? ?a|none|nil|null|unknown|undefined|unspecified|tb[acd]|no|nothing|empty|missing|blank|void|nan"
    r"|(?:not|none) (?:applicable|available|specified|provided|given|set|known)|no (?:value|preference)"
    r"|any|all|every(?:thing)?|anything|whatever|default|)\W*",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"\s*(?:[,;|\n\t\u2022\u00b7\u3001\uff0c\u2192]|->|=>|\\n|\.{3}|\u2026)\s*|\s(?:and|or|then|plus|vs\.?|[&+/<>])\s|\s{2,}"
)


def _read_loosely(text: str, items: Schema) -> Iterator[Any]:
    """The readings of a text as no items, or as several: each makes the reading as one item uncertain."""
    if text in items.get("enum", ()) or text.strip().startswith(("[", "{", "(", "<")):
        return
    if _NO_ITEM.fullmatch(text.strip()):
        yield []
    pieces = [each for each in _BETWEEN.split(text.strip()) if each]
    if len(pieces) > 1:
        yield pieces
    quoted = re.findall(r"([\"'`])(.+?)\1(?:\s+|$)", text.strip())
    if len(quoted) > 1:
        yield [each for _, each in quoted]
    if re.match(r"(?:[-*+]|\d+[.)])\s", text.strip()):
        yield [text.strip().split(None, 1)[1]]
    words = text.split()
    marked = [each for each in words if re.search(r"^[-#]|[/\\@=]|\w[.:]\w", each)]
    if len(words) > 1 and 2 * len(marked) >= len(words):
        yield words


def _is_of_items(node: Any, schema: Schema) -> bool:
    """A number is no single text among texts, nor is text that begins as a list does."""
    items = _list_types(schema.get("items", {}))
    if isinstance(node, str):
        return not node.strip().startswith(("[", "{", "(", "<"))
    return not (isinstance(node, Number) and items.isdisjoint(("integer", "number"))) and not (
        isinstance(node, bool) and "boolean" not in items
    )


def _read_text(text: str, schema: Schema, types: set[str], whole: Schema) -> Iterator[Any]:
    word = text.strip().lower()
    values = [each for each in schema.get("enum", ()) if isinstance(each, str)]
    yield from _choose(text, values)
    if "null" in types and word == "null":
        yield None
    if "boolean" in types and word in ("true", "false"):
        yield word == "true"
    if "integer" in types or "number" in types:
        # 1.234 is a number in JSON; only where a whole one is expected it may be meant as a thousand and more.
        plain = "number" in types and _JSON_NUMBER.fullmatch(text.strip())
        numerals = {Decimal(text.strip())} if plain else read_numerals(text)
        yield from (Number(str(each)) if each != int(each) else int(each) for each in numerals)
    if "array" in types or "object" in types:
        if text.strip().startswith(("[", "{")) and (found := _parse_literal(text.strip())) is not None:
            kind = "object" if isinstance(found, dict) else "array"
            if kind in types:
                yield from read_value(found, whole).values()
        if "array" in types:
            yield from _split(text, schema.get("items", {}))


def _split(text: str, items: Schema) -> Iterator[Any]:
    if text in items.get("enum", ()):
        yield [text]
    if text.strip().startswith(("[", "{", "(", "<")):
        return
    for separator in (",", ";", r"\|", "\n", "、", r"\s(?:and|or|&)\s"):
        pieces = [each for each in re.split(separator, text) if each.strip()]
        if len(pieces) > 1:
            ways: list[Any] = [[*read_value(piece.strip(), items).values()] for piece in pieces]
            yield from map(list, itertools.islice(itertools.product(*ways), _MOST))


def _choose(text: str, values: list[str]) -> Iterator[str]:
    """The values that a text may be another spelling of: in another case; or else all with the same letters."""
    sent = text.strip()
    same_case = [each for each in values if each.lower() == sent.lower()]
    same_letters = [each for each in values if _letters(each) == _letters(sent) != ""]
    for each in [sent] if sent in values else same_case or same_letters:
        if each in same_case or _words(each) == _words(sent):
            yield from same_case or same_letters
            if _is_other_symbol(sent, each):
                yield f"{each}, or another unit"
            return


def _is_other_symbol(sent: str, choice: str) -> bool:
    unit = re.fullmatch(r"([\d.]*)([^\W\d_]{1,2})", sent)
    if unit is None or sent == choice:
        return False
    return bool(unit[1]) or sent == "M" or (len(sent) == 2 and sent != sent.lower() and choice != choice.lower())


def _letters(text: str) -> str:
    return "".join(each for each in text.casefold() if each.isalnum())


def _words(text: str) -> list[str]:
    """The parts of a text that carry meaning: words without what joins them, numbers, and every other character."""
    plain = re.sub(r"[ \t]+", " ", text.strip().lower())  # how many blanks there are means nothing
    parts = re.findall(r"[^\W\d_]+|\d+|.", plain, re.DOTALL)
    kept: list[str] = []
    for index, part in enumerate(parts):
        before = parts[index - 1] if index else ""
        after = parts[index + 1] if index + 1 < len(parts) else ""
        joined = bool(before) and before[-1].isalnum() and bool(after) and after[0].isalnum()
        numbers = before.isdigit() and after.isdigit()
        if part in (" ", "_") and joined:
            kept += ["_"] if numbers else []
        elif part == "-" and joined and not after.isdigit() and max(len(before), len(after)) > 1:
            continue
        else:
            kept.append(part)
    return ["".join(group) for _, group in itertools.groupby(kept, str.isalpha)]


def _spell(number: Number, schema: Schema) -> Iterator[str]:
    if not number.lost:
        if number.value.adjusted() < 300 and number.token != "-0":
            yield number.token
        return
    spellings = {number.token} | {each for each in schema.get("enum", ()) if number.value in read_numerals(str(each))}
    if number.value == int(number.value):
        spellings.add(str(int(number.value)))
    if "e" in number.token:
        spellings.add(f"{number.value:f}")
    yield from spellings


def _read_object(node: dict[str, Any], schema: Schema, name: str, whole: Schema) -> Iterator[Any]:
    types = _list_types(schema)
    if "object" in types:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        members = [
            [(key, each) for each in read_value(value, properties.get(key, {}), key).values()]
            for key, value in node.items()
            if key in required or not _is_nothing(value, properties.get(key, {}))
        ]
        yield from map(dict, itertools.islice(itertools.product(*members), _MOST))
        return
    inner = [node[name]] if [*node] == [name] and name else []
    kind = node.get("type", "string")
    if isinstance(kind, str) and kind.lower() in TYPES:
        inner += [node[key] for key in ("value", "items") if key in node and {*node} <= {key, "type"}]
    for each in inner:
        yield from read_value(each, whole, name).values()


def _unwrap_nothing(value: object, schema: Schema, name: str) -> object:
    here: Any = value
    while isinstance(here, dict) and "object" not in _list_types(schema):
        held = cast("dict[str, Any]", here)
        keys = [key for key in (name, "value", "items") if key in held and ({*held} == {key} or key != name)]
        if not keys or {*held} - {keys[0], "type"} or str(held.get("type", "any")).lower() not in {*TYPES, "any"}:
            break
        here = held[keys[0]]
    return cast("object", here)


def _is_nothing(value: Any, schema: Schema) -> bool:
    null = isinstance(value, str) and value.strip() and fits(None, schema)  # the text "null" is null then
    return _is_word_for_nothing(value) and not fits(value, schema) and not null


def _is_word_for_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in ("", "null"))


def _parse_literal(text: str) -> Any:
    try:
        return parse(text)
    except (ValueError, RecursionError):
        pass
    try:
        tree = ast.parse(text, mode="eval").body
        return _read_tree(tree, text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _read_tree(tree: ast.expr, text: str) -> Any:
    source = ast.get_source_segment(text, tree) or ""
    match tree:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_read_tree(each, text) for each in items]
        case ast.Dict(keys=keys, values=values) if all(keys):
            names = [_read_tree(cast("ast.expr", key), text) for key in keys]
            pairs = list(zip(names, [_read_tree(each, text) for each in values], strict=True))
            return _pair(pairs) if all(isinstance(each, str) for each in names) else _raise(source)
        case ast.Constant(value=str()) if len(re.findall(r"(?<!\\)['\"]", source)) == 2 or "\\" in source:
            return tree.value
        case ast.Constant(value=None | bool()):
            return tree.value
        case ast.Constant() | ast.UnaryOp() if _JSON_NUMBER.fullmatch(source):
            return Number(source)
        case _:
            return _raise(source)


def _raise(source: str) -> Any:
    raise ValueError(source)


def _pair(pairs: list[tuple[str, Any]]) -> Any:
    return dict(pairs) if len(dict(pairs)) == len(pairs) else _raise("a name stands twice")


def _open(node: Any, properties: Schema, depth: int) -> Iterator[Any]:
    if not isinstance(node, dict) or not node or depth > 4:
        return
    whole = cast("dict[str, Any]", node)
    if any(_name_words(key) == _name_words(name) for key in whole for name in properties):
        return
    known = [key for key in whole if _letters(key) in WRAPPERS or not key.strip(" _")]
    if len(known) != 1 or len(whole) > 1:
        return
    inner = whole[known[0]]
    inner = _parse_literal(inner) if isinstance(inner, str) else inner
    if isinstance(inner, dict):
        yield inner
        yield from _open(inner, properties, depth + 1)


def _assign(node: Any, schema: Schema) -> Iterator[Any]:
    """``{"__positional_0": "base=6"}``, where no parameter could have that text itself."""
    whole = cast("dict[str, Any]", node) if isinstance(node, dict) else {}
    properties = schema["properties"]
    pairs: list[tuple[str, str]] = []
    for key, value in whole.items():
        match = re.fullmatch(r"\s*(\w+)\s?=\s?([^\s=,;&\"'][^=,;&\n]*)", value) if isinstance(value, str) else None
        if match is None or not re.fullmatch(r"_*(pos|positional|arg)?_*\d+", key) or match[1] not in properties:
            return
        pairs.append((match[1], match[2].strip()))
    texts = [name for name, form in properties.items() if "string" in _list_types(form) and "enum" not in form]
    named = dict(pairs)
    sure = any(name in schema.get("required", ()) for name in named) or not texts
    if pairs and len(named) == len(pairs) and sure and not {*named} & {*texts}:
        yield named


def _place(node: Any, properties: Schema, required: list[str]) -> dict[str, Any] | None:
    """Give each undeclared name the only absent one that it can mean; None where one has no such name, or two do."""
    if not isinstance(node, dict):
        return None
    whole = cast("dict[str, Any]", node)
    absent = [name for name in properties if name not in whole]
    meant: dict[str, str] = {}
    for key in whole:
        if key in properties:
            continue
        vague = _is_count_or_pattern(whole[key])
        targets = [name for name in absent if _may_mean(key, name, missing=name in required and not vague)]
        position = len(properties) == 1 and re.fullmatch(r"_*(pos|positional|arg)?_*\d*_*", key, re.IGNORECASE)
        targets = absent if position and absent and absent[0] in required else targets
        if len(targets) != 1:
            return None
        meant[key] = targets[0]
    if len({*meant.values()}) < len(meant):
        return None
    placed: dict[str, Any] = {meant.get(key, key): value for key, value in whole.items()}
    return placed


def _is_count_or_pattern(value: Any) -> bool:
    """Whether a value under a plural name may be how many there are, which ones, none or several."""
    if not isinstance(value, str):
        return isinstance(value, (Number, bool))
    text = value.strip()
    return (
        re.fullmatch(r"[-+]?[\d.,]+", text) is not None
        or bool({*"*?"} & {*text})
        or next(_read_loosely(text, {}), None) is not None
        or any(each[:1].islower() for each in text.split()[1:])
    )


def _may_mean(key: str, name: str, *, missing: bool) -> bool:
    if _name_words(key) == _name_words(name):
        return True
    prefix = re.fullmatch(rf"({'|'.join(PREFIXES)})[-_. ](.+)", key, re.IGNORECASE)
    if prefix is not None and _name_words(prefix[2]) == _name_words(name):
        return True
    one, other = "".join(_name_words(key)), "".join(_name_words(name))
    return missing and min(len(one), len(other)) >= 4 and (one + "s" == other or other + "s" == one)


def _name_words(name: str) -> list[str]:
    name = re.sub(r"^--\b|^[\"'`]+|[\s\"'`:=]+$", "", name.strip())
    return _words(re.sub(r"(?<=\w)[-.](?=\w)(?<!\d\.(?=\d))", "_", name.strip().strip("_")))


def _list_types(schema: Schema) -> set[str]:
    kind = schema.get("type", [])
    if "anyOf" in schema:
        return {each for branch in schema["anyOf"] for each in _list_types(branch)}
    if not kind and "enum" in schema:
        return {"string" if isinstance(each, str) else "number" for each in schema["enum"]}
    return {kind} if isinstance(kind, str) else {*kind}


def _canonical_number(value: Decimal) -> str:
    if not value or not value.is_finite() or abs(value.adjusted()) > 400:
        return str(value) if value else "0"
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _plain(value: Any) -> Any:
    match value:
        case Number():
            number = value.value
            return int(number) if number == int(number) else float(number)
        case list():
            return [_plain(each) for each in cast("list[Any]", value)]
        case dict():
            return {key: _plain(each) for key, each in cast("dict[str, Any]", value).items()}
        case _:
            return value
