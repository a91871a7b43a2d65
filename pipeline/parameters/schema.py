"""Walk through a JSON Schema and through arguments: paths, references, and the subschemas that apply at a place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from typing_extensions import TypeIs

JsonObject: TypeAlias = dict[str, Any]
Parts: TypeAlias = Sequence[int | str]  # a path as keys and indexes; `format_path` writes it as text
Form: TypeAlias = Mapping[str, Any]  # a subschema that applies at a place: the node itself, or a branch of its union

class_of: Callable[[Any], type[Any]] = type  # type(value); type checkers need no cast with it

NOUNS: Final = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
UNIONS: Final = ("anyOf", "oneOf", "allOf")  # keywords with further subschemas for the same place
_SEPARATOR = re.compile(r"[.\[]")
_MAX_PATH = 10_000  # characters of a path that is split
_MAX_SEPARATORS = 100  # of one path; a longer path is not found
_INDEX = re.compile(r"\[(\d+)\]\.?")
_MAX_DEPTH = 8  # references to references; stops a circle
MAX_FORMS = 1_000  # of one place
_TYPES: tuple[tuple[type, str], ...] = (
    (str, "string"),
    (int, "integer"),
    (float, "number"),
    (list, "array"),
    (tuple, "array"),
    (dict, "object"),
    (Mapping, "object"),  # after dict: the check of an abstract class is slow
)
_NAMES: Final = {type(None): "null", bool: "boolean", **dict(_TYPES)}  # of most values; bool has no subclasses


class ToolSchema(JsonObject):
    """The schema of one tool, which does not change. It keeps what is the same for every call of that tool.

    Attributes:
        closings: The last lines of texts about missing parameters, see `toolcall_pipeline.messages.closing`.
        texts: The texts about wrong types, by their problems, see `toolcall_pipeline.messages.rendering`.
        roots: The subschemas of the arguments as a whole, see `forms_at`; None: they were not listed so far.
        odd_names: Whether a provider does not accept the name of a property, by the pattern of those that it does, see
            `toolcall_pipeline.adapters`.
    """

    __slots__ = ("closings", "odd_names", "roots", "texts")

    def __init__(self, schema: Form) -> None:
        super().__init__(schema)
        self.closings: dict[Any, Any] = {}
        self.texts: dict[Any, str] = {}
        self.roots: list[Form] | None = None
        self.odd_names: dict[str, bool] = {}


def is_object(value: object) -> TypeIs[JsonObject]:
    """Whether a value is a JSON object in the type that a JSON parser returns."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeIs[list[Any]]:
    """Whether a value is a JSON array in the type that a JSON parser returns."""
    return isinstance(value, list)


def json_type(value: object) -> str:
    """Return the JSON Schema type of a value; "" for a value that JSON cannot represent."""
    if (known := _NAMES.get(class_of(value))) is not None:
        return known
    for kind, name in _TYPES:
        if isinstance(value, kind):
            return name
    return ""


def format_path(parts: Parts) -> str:
    """Write a path as text for a model: ``filter.tags[1]``."""
    if len(parts) == 1:
        return str(parts[0])
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def locate(value: Any, path: str) -> tuple[list[int | str], str]:
    """Split a path in text form, as far as it leads through the value. Returns the parts and the rest of the text."""
    parts: list[int | str] = []
    while path:
        if is_object(value):
            separators = _SEPARATOR.finditer(path) if len(path) <= _MAX_PATH else ()
            ends = [len(path), *islice((each.start() for each in separators), _MAX_SEPARATORS)]
            heads = (path[:end] for end in sorted(ends, reverse=True))  # a name may itself contain a dot
            name = next((head for head in heads if head in value), None)
            if name is None:
                break
            parts.append(name)
            value, path = value[name], path[len(name) :].removeprefix(".")
        elif is_array(value) and (index := _INDEX.match(path)) and int(index[1]) < len(value):
            parts.append(int(index[1]))
            value, path = value[int(index[1])], path[index.end() :]
        else:
            break
    return parts, path


def value_at(value: object, parts: Parts) -> object:
    """Return the value at a path; None if the path leads nowhere."""
    here: Any = value
    for part in parts:
        try:
            here = here[part]
        except (IndexError, KeyError, TypeError):
            return None
    return here


def find_target(schema: Form, reference: str) -> Any:
    """Return the target of a ``$ref`` within this schema; None if there is none, or if it is in another document."""
    steps = reference.split("/")
    if steps[0] != "#":
        return None
    here: Any = schema if is_object(schema) else dict(schema)
    for step in steps[1:]:
        key = _unescape(step)
        if is_object(here):
            here = here.get(key)
        elif is_array(here) and key.isdecimal() and int(key) < len(here):
            here = here[int(key)]
        else:
            return None
    return here


def _unescape(step: str) -> str:
    """Decode one step of a JSON pointer in a URI fragment (RFC 6901, section 6)."""
    if "%" in step:
        from urllib.parse import unquote  # takes 3 ms, and few schemas need it

        step = unquote(step)
    return step.replace("~1", "/").replace("~0", "~")


def resolve_ref(schema: Form, node: Any) -> JsonObject:
    """Return a subschema with its ``$ref`` resolved; empty if there is none.

    A reference to another document stays unresolved: nothing is fetched.
    """
    for _ in range(_MAX_DEPTH):
        if not is_object(node):
            break
        reference = node.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return node
        node = find_target(schema, reference)
    return {}


def schema_at(schema: Form, parts: Parts) -> JsonObject:
    """Return the subschema at a path, as far as it can be found without looking into unions; empty otherwise."""
    here = resolve_ref(schema, schema)
    for part in parts:
        here = resolve_ref(schema, _child(here, part))
    return here


def forms_at(schema: Form, parts: Parts) -> list[Form]:
    """List every subschema that applies at a path, the branches of unions included."""
    known = schema.roots if isinstance(schema, ToolSchema) else None
    forms = _branches(schema, [schema]) if known is None else [*known]
    if known is None and isinstance(schema, ToolSchema):
        schema.roots = [*forms]
    for part in parts:
        forms = _branches(schema, [child for each in forms if (child := _child(each, part)) is not None])
    return forms


def choose_forms(schema: Form, parts: Parts, holder: object) -> list[Form]:
    """List the subschemas that apply at a path, of a union only the branches whose tag the object there has."""
    forms = forms_at(schema, parts)
    if not is_object(holder):
        return forms
    tags = [_count_tags(schema, form, holder) for form in forms]
    if not any(right and not wrong for right, wrong in tags):
        return forms
    return [form for form, (_, wrong) in zip(forms, tags, strict=True) if not wrong]


def _count_tags(schema: Form, form: Form, holder: JsonObject) -> tuple[int, int]:
    """Count the constants of a subschema's properties that an object has, and those that it contradicts."""
    right = wrong = 0
    for name, node in form.get("properties", {}).items():
        if name in holder and is_object(node) and "const" in (here := resolve_ref(schema, node)):
            right += here["const"] == holder[name]
            wrong += here["const"] != holder[name]
    return right, wrong


def names_at(schema: Form, parts: Parts) -> set[str]:
    """Return the property names that the schema declares for the object at a path."""
    return {name for form in forms_at(schema, parts) for name in form.get("properties", ())}


def names_of(schema: Form, node: Any) -> set[str]:
    """Return the property names that a subschema declares, such as the branch of a union."""
    return {name for form in _branches(schema, [node]) for name in form.get("properties", ())}


def is_open(schema: Form) -> bool:
    """Whether a schema permits names at its top level that it does not declare, and says nothing about their values."""
    forms = forms_at(schema, ())
    return any(form.get("properties") for form in forms) and all(map(_is_open, forms))


def _is_open(form: Form) -> bool:
    rest = [form.get(keyword, True) for keyword in ("additionalProperties", "unevaluatedProperties")]
    return "patternProperties" not in form and all(each is True or each == {} for each in rest)


def is_required(schema: Form, parts: Parts) -> bool:
    """Whether the object around a path must have the property that the path ends with."""
    holders = forms_at(schema, parts[:-1])
    required: Iterator[Sequence[Any]] = (form.get("required") or () for form in holders)
    return any(parts[-1] in names for names in required)


def _branches(schema: Form, nodes: Sequence[Any]) -> list[Form]:
    """List these subschemas and the branches of their unions, each only once."""
    found: dict[int, Form] = {}
    pending = list(reversed(nodes))
    while pending and len(found) < MAX_FORMS:
        here = resolve_ref(schema, pending.pop())
        if here and id(here) not in found:
            found[id(here)] = here
            unions: Iterator[Sequence[Any]] = (here.get(keyword) or () for keyword in UNIONS)
            pending += reversed([branch for union in unions for branch in union])
    return list(found.values())


def _child(form: Form, part: int | str) -> Any:
    if isinstance(part, int):
        first = form.get("prefixItems") or ()
        return first[part] if part < len(first) else form.get("items")
    return form.get("properties", {}).get(part, form.get("additionalProperties"))
