"""Findings in the tools themselves: names, descriptions, types of parameters, effects."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal, TypeAlias, cast

import attrs

from ...adapters import anthropic, openai
from ...adapters.definable import find_top_union, has_odd_names
from ...base.introspection import unwrap
from ...base.provider_names import ANTHROPIC, OPENAI
from ...base.setup_error import SetupError
from ...messages.wording import CHARACTERS_PER_TOKEN
from ...privacy import neutralise
from ...tools.definition import Tool
from ...tools.view import ToolView
from ..list_tools import as_mapping, list_parameters
from ..terminal_text import fit_on_one_line

_PROVIDERS = (("OpenAI", OPENAI), ("Anthropic", ANTHROPIC))
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_READ_VERBS = frozenset(
    "check count describe fetch find get grep inspect list lookup query read search show stat view which".split()  # noqa: SIM905
)
_WRITE_VERBS = frozenset(
    "add append buy cancel charge create delete drop edit insert move pay post publish put remove rename replace reset "  # noqa: SIM905
    "send set submit transfer update upload write".split()
)
# Keywords of JSON Schema whose value maps the user's own names to schemas, and keywords whose value is not a schema.
_SCHEMA_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_VALUES = ("default", "enum", "const", "examples")
Severity: TypeAlias = Literal["error", "warning", "note"]
_MAX_QUOTED = 60  # characters


def check_tools(registry: ToolView, declared: Mapping[str, bool], known: Collection[str]) -> Iterator[Finding]:
    """The findings of each tool.

    Args:
        registry: The tools. Each has a schema.
        declared: Whether the source of a tool gives an effect; a tool is absent if that cannot be seen.
        known: The names of all tools, those without a schema included.
    """
    sent = [(provider, limit, registry.provider_names(limit)) for provider, limit in _PROVIDERS]
    for tool in registry:
        yield from _check_name(tool, [(provider, limit, names[tool.name]) for provider, limit, names in sent])
        yield from _check_descriptions(tool)
        yield from _check_types(tool)
        yield from _check_providers(tool)
        yield from _check_effect(tool, declared.get(tool.name))
        yield from _check_envelope(tool)
        if tool.verify_with is not None and tool.verify_with not in known:
            what = f"verify_with tells the model to check with {tool.verify_with}, which is not a tool here"
            yield Finding("error", "verify_with", tool.name, what, "name a tool that shows whether a call took effect")


def _check_name(tool: Tool[..., Any], sent: list[tuple[str, int, str]]) -> Iterator[Finding]:
    refused = [each for each in sent if each[-1] != tool.name]
    if not refused:
        return
    providers = " and ".join(provider for provider, *_ in refused)
    _, limit, replacement = refused[0]
    if len(tool.name) > limit:
        why = f"it has {len(tool.name)} characters, and {limit} are allowed"
    else:
        why = "only letters from a to z, digits, _ and - are allowed"
    what = f"{providers} {'refuses' if len(refused) == 1 else 'refuse'} the name: {why}"
    yield Finding("warning", "name", tool.name, what, f"pass name=; until then the adapters send {replacement}")


def _check_descriptions(tool: Tool[..., Any]) -> Iterator[Finding]:
    if not (tool.description or "").strip():
        what = "the tool has no description: a model knows only its name"
        yield Finding("error", "description", tool.name, what, "write a docstring, or pass description=")
    properties = _get_mapping(tool, "properties").items()
    missing = [name for name, inner in properties if not str(as_mapping(inner).get("description") or "").strip()]
    if missing:
        what = f"parameters without a description: {', '.join(missing)}"
        fix = "describe them in the docstring under Args:, or in the schema"
        yield Finding("warning", "description", tool.name, what, fix)


def _check_types(tool: Tool[..., Any]) -> Iterator[Finding]:
    schema: dict[str, Any] = tool.definition()["parameters"]
    if schema == {"type": "object"}:
        what = "the tool takes any object: a model has to guess the parameters, and nothing is checked"
        yield Finding("warning", "type", tool.name, what, "declare the parameters")
    if untyped := [row.path for row in list_parameters(schema) if row.type == "any"]:
        what = f"parameters without a type: {', '.join(untyped)}"
        yield Finding("warning", "type", tool.name, what, "annotate them; without a type any value is accepted")
    named = {**_get_mapping(tool, "properties"), **_get_mapping(tool, "$defs")}
    if tool.parameters.is_ambiguous:
        what = "a union holds itself, and no field tells its forms apart: deep arguments take exponential time"
        fix = 'give each form a field of its own constant, as Literal["add"], and the union a Field(discriminator=…)'
        yield Finding("warning", "type", tool.name, what, f"{fix}; until then calls that are nested deeply are refused")
    if arrays := [name for name, inner in named.items() if _has_bare_array(inner)]:
        what = f"arrays without items, for which OpenAI refuses the whole request: {', '.join(arrays)}"
        yield Finding("error", "type", tool.name, what, 'say what they hold, for example "items": {"type": "string"}')


def _check_providers(tool: Tool[..., Any]) -> Iterator[Finding]:
    schema: dict[str, Any] = tool.definition()["parameters"]
    if union := find_top_union(schema):
        what = f"{union} at the top of the schema, for which Anthropic's models refuse the whole request"
        yield Finding("error", "schema", tool.name, what, "give the arguments one object that holds the union")
    if has_odd_names(schema):
        what = "names of parameters that Anthropic's models refuse: up to 64 letters from a to z, digits, _, . and -"
        fix = "rename them; until then the adapters send others, and change them back in calls"
        yield Finding("note", "schema", tool.name, what, fix)


def _check_effect(tool: Tool[..., Any], declared: bool | None) -> Iterator[Finding]:  # noqa: FBT001  # three values
    words = [word.lower() for word in _WORDS.findall(tool.name)]
    writes = not _WRITE_VERBS.isdisjoint(words)
    reads = not _READ_VERBS.isdisjoint(words)
    if tool.effect == "read" and writes and not reads:
        what = "the effect is read, so failures are retried, but the name says that the tool changes something"
        fix = 'if it does, declare effect="mutating", "idempotent" or "keyed"'
        yield Finding("warning", "effect", tool.name, what, fix)
    if tool.effect != "mutating":
        return
    named_read = reads and not writes
    if declared is False:
        what = "the effect is not declared, so no failure is retried"
    elif declared is None and named_read:
        what = "the effect is mutating, so no failure is retried, but the name says that the tool reads"
    else:
        return
    fix = 'declare effect="read"' if named_read else 'declare effect="mutating", "read", "idempotent" or "keyed"'
    yield Finding("warning", "effect", tool.name, what, fix)


def _check_envelope(tool: Tool[..., Any]) -> Iterator[Finding]:
    if tool.detect is None and (key := _find_envelope(tool.fn)) is not None:
        what = f"it returns its failures, as {key}, and nothing detects them: each counts as a success"
        fix = "raise ToolFailed, or give detect=returned_error to the tool or to standard()"
        yield Finding("warning", "envelope", tool.name, what, fix)


def _find_envelope(function: Any) -> str | None:
    """The key by which a literal that a function returns says that it failed; None: no literal does."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(unwrap(function))))
    except (OSError, TypeError, SyntaxError, ValueError):  # a function without a source
        return None
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Return) else None
        for key, flag in zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else ():
            name = key.value if isinstance(key, ast.Constant) else None
            means = flag.value if isinstance(flag, ast.Constant) else None
            if (name in ("ok", "success") and means is False) or (name in ("isError", "is_error") and means is True):
                return json.dumps({name: means})
    return None


def _get_mapping(tool: Tool[..., Any], key: str) -> Mapping[str, Any]:
    return as_mapping(tool.definition()["parameters"].get(key))


def _has_bare_array(schema: object) -> bool:
    """Whether there is an array in the schema whose items have no schema."""
    pending = [schema]
    while pending:
        node: Any = pending.pop()
        if isinstance(node, list):
            pending += cast("list[Any]", node)
            continue
        found = as_mapping(node)
        types = found.get("type")
        is_array = "array" in cast("list[object]", types) if isinstance(types, list) else types == "array"
        if is_array and "items" not in found and "prefixItems" not in found:
            return True
        for key, inner in found.items():
            if key in _SCHEMA_MAPS:
                pending += as_mapping(inner).values()
            elif key not in _VALUES:
                pending.append(inner)
    return False


@attrs.frozen
class Finding:
    """One thing to correct, or to know. ``--json`` prints it with these names.

    Args:
        severity: ``error`` and, with ``--strict``, ``warning`` make the exit code 1.
        rule: The check: description, name, effect, type, verify_with, text, expect, source or schema.
        tool: The name of the tool; "" if the finding belongs to a file.
        what: The mistake.
        fix: The way out.
        place: ``file:line`` of a text in the source; "" for other findings.
    """

    severity: Severity
    rule: str
    tool: str
    what: str
    fix: str
    place: str = ""


def quote(text: str) -> str:
    """The beginning of a text in quotes, on one line."""
    return f"'{neutralise(fit_on_one_line(text, _MAX_QUOTED))}'"


@attrs.frozen
class TokenCost:
    """Estimated tokens of a tool's definition, which a request pays each time that it offers the tool."""

    openai: int
    anthropic: int


def estimate_costs(registry: ToolView) -> dict[str, TokenCost]:
    """The cost of each open tool by name: of its definition as the adapters send it, as JSON without blanks.

    A definition that Anthropic refuses costs there as much as at OpenAI.
    """
    found: dict[str, TokenCost] = {}
    for name in registry.callable_names():
        view = registry.view([name])
        for_openai = for_anthropic = _estimate_tokens(*openai.tools(view))
        with suppress(SetupError):
            for_anthropic = _estimate_tokens(*anthropic.tools(view))
        found[name] = TokenCost(for_openai, for_anthropic)
    return found


def _estimate_tokens(definition: object) -> int:
    return -(-len(json.dumps(definition, ensure_ascii=False, separators=(",", ":"))) // CHARACTERS_PER_TOKEN)
