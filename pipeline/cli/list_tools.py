"""``toolcall tools``: prints the tools of a registry as a model sees them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..adapters.schema_fitting import fit, fit_definitions
from ..adapters.schema_forms import SchemaChange
from ..engine.errors import Unavailable
from ..messages.text import format_count
from ..privacy import dump_neutral_json, neutralise
from ..tools.definition import Tool
from .loading import check_schemas, load_registry
from .stdio import redirect_to_stderr
from .terminal_text import make_console

_MAX_NESTED = 3  # references to follow within one type: types that refer to each other have factorially many paths
_JOINED_BY = (("anyOf", " or "), ("oneOf", " or "), ("allOf", " and "))


def print_tools(target: str, *, as_json: bool, provider: str | None = None, strict: bool = False) -> None:
    """Print every tool, or with ``as_json`` the definitions of the open ones."""
    with redirect_to_stderr():
        registry = load_registry(target)
        check_schemas(registry, target)
    if as_json:
        definitions = registry.definitions()
        if provider is not None:
            fit_definitions(definitions, "parameters", provider, strict=strict)
        print(dump_neutral_json(definitions, indent=2))
        return
    console = make_console()
    if not len(registry):
        console.print(f"{target} has no tools", soft_wrap=True)
        return
    closed = registry.closed
    for tool in registry:
        _print_tool(console, tool, closed.get(tool.name))
        if provider is not None:
            _print_changes(console, fit(tool.definition()["parameters"], provider, strict=strict).changes)
        console.print()
    console.print(f"{format_count(len(registry), 'tool')}, {len(registry.callable_names())} offered to a model now")


def _print_tool(console: Console, tool: Tool[..., Any], closed: Unavailable | None) -> None:
    style = "dim" if closed else "bold"
    line = Text.assemble((neutralise(tool.name), style), ("  " + tool.effect, "dim"))
    if closed:
        line.append(f"  closed: {neutralise(closed.reason)}", "yellow")
    console.print(line, soft_wrap=True)
    if tool.description:
        console.print(Padding(Text(neutralise(tool.description, keep_lines=True)), (0, 0, 0, 2), expand=False))
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in ParameterRow._fields:
        table.add_column(overflow="fold")
    for path, *cells in list_parameters(tool.definition()["parameters"]):
        table.add_row(*(Text(neutralise(cell, keep_lines=True)) for cell in (f"    {path}", *cells)))
    if table.row_count:
        console.print(table)


def _print_changes(console: Console, changes: Iterable[SchemaChange]) -> None:
    for path, what, lost in changes:
        line = Text.assemble("    ", (neutralise(path), "bold"), ": " if path else "", neutralise(what))
        console.print(line + Text("  (lost)" if lost else "", "yellow"), soft_wrap=True)


class ParameterRow(NamedTuple):
    """One parameter, or one field of an object inside a parameter."""

    path: str  # for example ``filter.tags[].name``
    type: str
    note: str  # "required", the default as ``= 3``, or ""
    description: str


def list_parameters(schema: Mapping[str, Any]) -> list[ParameterRow]:
    """All parameters and the fields in them, in the order of the schema."""
    return list(_list_fields(schema, schema, "", set()))


def _list_fields(schema: Any, root: Mapping[str, Any], prefix: str, seen: set[str]) -> Iterator[ParameterRow]:
    required = _as_list(schema.get("required"))
    for name, inner in as_mapping(schema.get("properties")).items():
        field = as_mapping(inner)
        note = "required" if name in required else ""
        if "default" in field:
            note = f"= {_to_json(field['default'])}"
        path = prefix + name
        yield ParameterRow(path, describe_type(inner, root), note, _as_text(field.get("description")))
        yield from _list_inner_fields(field, root, path, seen)


def _list_inner_fields(
    schema: Mapping[str, Any], root: Mapping[str, Any], path: str, seen: set[str]
) -> Iterator[ParameterRow]:
    """The fields of an object, or of the objects in an array or a union. A type is listed at its first place only."""
    reference = _as_text(schema.get("$ref"))
    if reference in seen:
        return
    if reference:
        seen.add(reference)
        yield from _list_inner_fields(_resolve_reference(reference, root), root, path, seen)
    yield from _list_fields(schema, root, f"{path}.", seen)
    if "items" in schema:
        yield from _list_inner_fields(as_mapping(schema["items"]), root, f"{path}[]", seen)
    for key, _ in _JOINED_BY:
        for member in _as_list(schema.get(key)):
            yield from _list_inner_fields(as_mapping(member), root, path, seen)


def describe_type(schema: object, root: Mapping[str, Any], seen: tuple[str, ...] = ()) -> str:
    """A type in a few words: ``array of integer``, ``string or null``, ``"a" | "b"``."""
    found = as_mapping(schema)
    reference = _as_text(found.get("$ref"))
    if reference:
        if reference in seen or len(seen) == _MAX_NESTED:
            return reference.rpartition("/")[2]
        return describe_type(_resolve_reference(reference, root), root, (*seen, reference))
    if "const" in found:
        return _to_json(found["const"])
    if choices := _as_list(found.get("enum")):
        return " | ".join(map(_to_json, choices))
    for key, word in _JOINED_BY:
        if members := _as_list(found.get(key)):
            return word.join(dict.fromkeys(describe_type(member, root, seen) for member in members))
    types = found.get("type")
    if isinstance(types, list):
        each = cast("list[object]", types)
        return " or ".join(describe_type({**found, "type": one}, root, seen) for one in each)
    return _describe_single_type(_as_text(types), found, root, seen)


def _describe_single_type(name: str, schema: Mapping[str, Any], root: Mapping[str, Any], seen: tuple[str, ...]) -> str:
    name = name or ("object" if "properties" in schema else "any")
    if name == "array" and schema.get("items"):
        return f"array of {describe_type(schema['items'], root, seen)}"
    if name == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {describe_type(schema['additionalProperties'], root, seen)}"
    return f"{name} ({_as_text(schema['format'])})" if name == "string" and "format" in schema else name


def _resolve_reference(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for key in reference.removeprefix("#/").split("/"):
        found = as_mapping(found).get(key)
    return as_mapping(found)


def as_mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one: a schema may come from a server and be wrong."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _as_list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
