"""``toolcall tools``: a registry as the model sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..errors import Unavailable
from ..tools.definition import Tool
from .loading import Refused, compiled, load, registry_of
from .stdio import printing_to_stderr

_DEEP = 3  # references within each other that are followed: types that hold each other have factorially many ways


class Parameter(NamedTuple):
    """One row: a parameter, or a field inside of one."""

    path: str  # as in ``filter.tags[].name``
    type: str
    note: str  # required, or the default
    description: str


def show(target: str, *, as_json: bool) -> None:
    """Print it. Raises Refused."""
    with printing_to_stderr():
        registry = registry_of(load(target))
        if registry is None:
            raise Refused(f"{target} is a Pipeline whose stages ask no ToolRegistry")
        compiled(registry, target)
    if as_json:
        print(json.dumps(registry.definitions(), indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False, markup=False, emoji=False)
    if not len(registry):
        console.print(f"{target} is empty: it has no tools", soft_wrap=True)
        return
    closed = registry.closed
    for tool in registry:
        _show(console, tool, closed.get(tool.name))
    offered = len(registry.callable_names())
    console.print(f"{len(registry)} {'tool' if len(registry) == 1 else 'tools'}, {offered} offered to a model now")


def _show(console: Console, tool: Tool[..., Any], closed: Unavailable | None) -> None:
    colour = "dim" if closed else "bold"
    line = Text.assemble((_safe(tool.name), colour), ("  " + tool.effect, "dim"))
    if closed:
        line.append(f"  closed: {_safe(closed.reason)}", "yellow")
    console.print(line, soft_wrap=True)
    if tool.description:
        console.print(Padding(Text(_safe(tool.description)), (0, 0, 0, 2), expand=False))
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in Parameter._fields:
        table.add_column(overflow="fold")
    for path, *cells in parameters(tool.definition()["parameters"]):
        table.add_row(*(Text(_safe(cell)) for cell in (f"    {path}", *cells)))
    if table.row_count:
        console.print(table)
    console.print()


def parameters(schema: Mapping[str, Any]) -> list[Parameter]:
    """What a model may send, fields of objects included, in the schema's order."""
    return list(_fields(schema, schema, "", set()))


def _fields(schema: Any, root: Mapping[str, Any], before: str, seen: set[str]) -> Iterator[Parameter]:
    properties = _mapping(schema.get("properties"))
    required = schema.get("required")
    for name, inner in properties.items():
        found = _mapping(inner)
        note = "required" if isinstance(required, list) and name in cast("list[object]", required) else ""
        if "default" in found:
            note = f"= {_json(found['default'])}"
        path = before + name
        yield Parameter(path, type_of(inner, root), note, _text(found.get("description")))
        yield from _inside(found, root, path, seen)


def _inside(schema: Mapping[str, Any], root: Mapping[str, Any], path: str, seen: set[str]) -> Iterator[Parameter]:
    """The fields of what is, or may be, an object or an array of such; a type of many places is shown in the first."""
    reference = _text(schema.get("$ref"))
    if reference in seen:
        return
    if reference:
        seen.add(reference)
        yield from _inside(_referred(reference, root), root, path, seen)
    yield from _fields(schema, root, f"{path}.", seen)
    if "items" in schema:
        yield from _inside(_mapping(schema["items"]), root, f"{path}[]", seen)
    for key in ("anyOf", "oneOf", "allOf"):
        for each in _list(schema.get(key)):
            yield from _inside(_mapping(each), root, path, seen)


def type_of(schema: object, root: Mapping[str, Any], seen: tuple[str, ...] = ()) -> str:
    """In a few words: ``array of integer``, ``string or null``, ``"a" | "b"``."""
    found = _mapping(schema)
    reference = _text(found.get("$ref"))
    if reference:
        name = reference.rpartition("/")[2]
        return (
            name
            if reference in seen or len(seen) == _DEEP
            else type_of(_referred(reference, root), root, (*seen, reference))
        )
    if "const" in found:
        return _json(found["const"])
    if choices := _list(found.get("enum")):
        return " | ".join(map(_json, choices))
    for key, word in (("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")):
        if several := _list(found.get(key)):
            return word.join(dict.fromkeys(type_of(each, root, seen) for each in several))
    kinds = found.get("type")
    if isinstance(kinds, list):
        return " or ".join(type_of({**found, "type": kind}, root, seen) for kind in cast("list[object]", kinds))
    kind = _text(kinds) or ("object" if "properties" in found else "any")
    if kind == "array" and found.get("items"):
        return f"array of {type_of(found['items'], root, seen)}"
    if kind == "object" and isinstance(found.get("additionalProperties"), Mapping):
        return f"object of {type_of(found['additionalProperties'], root, seen)}"
    return f"{kind} ({_text(found['format'])})" if kind == "string" and "format" in found else kind


def _referred(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for key in reference.removeprefix("#/").split("/"):
        found = _mapping(found).get(key)
    return _mapping(found)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _safe(text: str) -> str:
    """Without what a terminal would obey: a description may come from a server that nobody here wrote."""
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)
