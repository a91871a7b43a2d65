"""Tool definitions of an MCP server: read, escape, fingerprint them, and make each a Tool.

A description or a schema can carry text that people do not see and a model reads: escape sequences, Unicode tags. A
server may also show one definition while a person reviews it and another one later ("rug pull"): its fingerprint shows
the difference, and the first one counts until a person accepts another.

Annotations: https://modelcontextprotocol.io/specification (schema, "ToolAnnotations"). They are hints, and "clients
MUST consider tool annotations to be untrusted unless they come from trusted servers".
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, cast

from typing_extensions import Unpack

from ..base.nesting import is_deep
from ..base.setup_error import SetupError
from ..privacy import neutralise
from ..tools import Effect, Tool
from ..tools.tool_options import ToolOptions


def read_name(definition: object) -> str | None:
    """Return the name of a tool, or None if it has none and so cannot be called."""
    name: Any = cast("Mapping[str, Any]", definition).get("name") if isinstance(definition, Mapping) else None
    return name if isinstance(name, str) and name.strip() else None


def make_tool(
    name: str,
    definition: Mapping[str, Any],
    handler: Callable[..., Awaitable[object]],
    **options: Unpack[ToolOptions],
) -> tuple[Tool[..., Any], str]:
    """Make a tool whose body is a call of the server.

    Returns:
        The tool, and what is wrong with its schema: then it has the rest, and the server validates the bad part alone.
        "": nothing is wrong.

    Raises:
        SetupError: The options contradict each other.
    """
    description = definition.get("description")
    text = description if isinstance(description, str) else ""
    facts: Any = {"name": name, "handler": handler, "description": text, "context": True, "one_request": True}
    mistake = ""
    for parameters in _without_bad_parts(definition.get("inputSchema")):
        try:
            tool = Tool.from_schema(parameters=parameters, **facts, **options)
        except SetupError as exc:
            if parameters is None:
                raise
            mistake = mistake or str(exc)
        else:
            tool.is_remote = True
            return tool, mistake
    raise AssertionError("the last one takes any object")


def _without_bad_parts(schema: Any) -> Iterator[Mapping[str, Any] | None]:
    """The schema, and then with less and less of what may be wrong in it; None at last: any object."""
    yield schema
    if isinstance(schema, Mapping) and not is_deep(schema):
        from ..adapters import fit  # few servers need it

        mended = fit(cast("Mapping[str, Any]", schema), "mistral").schema  # which takes all of JSON Schema
        yield mended
        yield {**mended, "properties": {name: _say_no_more(each) for name, each in mended["properties"].items()}}
    yield None


def _say_no_more(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in schema.items() if key in ("type", "title", "description", "default")}


_PROSE: Final = frozenset(("description", "title", "$comment"))  # shown to the model, without meaning to a parser
_MAX_TEXT: Final = 20_000  # characters of a description
_MAX_DEPTH: Final = 100  # levels of a schema
# Controls, overrides of direction, tags, and the variation selectors that can carry a hidden text: those of the second
# block, and several in a row (Unicode 16, sections 23.1, 23.2, 23.4 and 23.9). Other format characters are part of
# ordinary words and emoji.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2060-\u2064\u2066-\u2069\U000e0000-\U000e01ef]|[\ufe00-\ufe0f]{2}"
)


def escape_description(description: object) -> str:
    """Escape the invisible characters of a description; "" if it is not a string."""
    return neutralise(description, keep_lines=True, limit=_MAX_TEXT) if isinstance(description, str) else ""


def escape_name(name: str) -> str:
    """Escape the invisible characters of a name."""
    return neutralise(name)


def escape_schema(schema: Any, depth: int = 0) -> Any:
    """Copy a schema with its descriptions and titles escaped.

    Raises:
        SetupError: A name or a value in it holds an invisible character, which cannot be escaped without
            changing what the schema means; or it is too deep.
    """
    if depth > _MAX_DEPTH:
        raise SetupError(f"the schema has more than {_MAX_DEPTH} levels")
    if isinstance(schema, Mapping):
        entries = cast("Mapping[Any, Any]", schema).items()
        return {
            _check(key): escape_description(value)
            if key in _PROSE and isinstance(value, str)
            else escape_schema(value, depth + 1)
            for key, value in entries
        }
    if isinstance(schema, (list, tuple)):
        return [escape_schema(each, depth + 1) for each in cast("list[Any]", schema)]
    return _check(schema)


def _check(value: Any) -> Any:
    if isinstance(value, str) and (found := _HIDDEN.search(value)):
        raise SetupError(f"the schema holds the character {neutralise(found.group())} in a name or a value")
    return value


def read_effect(annotations: object, *, trusted: bool) -> Effect:
    """Return the effect that a server claims for a tool; ``mutating`` if it claims none or is not trusted."""
    if not trusted or not isinstance(annotations, Mapping):
        return "mutating"
    hints = cast("Mapping[object, object]", annotations)
    if hints.get("readOnlyHint") is True:
        return "read"
    return "idempotent" if hints.get("idempotentHint") is True else "mutating"


# The fields that a model reads or that decide how a call is treated; icons and `_meta` do neither.
_PARTS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


def make_fingerprint(definition: Mapping[str, Any]) -> str:
    """Return the fingerprint of a tool definition: ``sha256:`` and 64 digits. The order of keys makes no difference.

    Raises:
        ValueError: It is not JSON, or too deep.
    """
    parts = {name: definition[name] for name in _PARTS if definition.get(name) is not None}
    if is_deep(parts):
        raise ValueError("the definition is nested too deeply")
    try:
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    except TypeError as exc:
        raise ValueError(f"the definition is no JSON: {type(exc).__name__}") from exc
    return f"sha256:{sha256(text.encode()).hexdigest()}"
