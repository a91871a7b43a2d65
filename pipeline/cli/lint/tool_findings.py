"""Findings in the tools themselves: names, descriptions, types of parameters, effects."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from ...adapters import anthropic, fit, openai
from ...base.introspection import unwrap
from ...base.provider_names import ANTHROPIC, OPENAI
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
Severity: TypeAlias = Literal["error", "warning", "note"]
_MAX_QUOTED = 60  # characters
_MAX_CHANGES = 4  # of one schema that are listed


def check_tools(registry: ToolView, declared: Mapping[str, bool], known: Collection[str]) -> Iterator[Finding]:
    """The findings of each tool."""
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
    properties = as_mapping(tool.definition()["parameters"].get("properties")).items()
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
    if tool.parameters.is_ambiguous:
        what = "a union holds itself, and no field tells its forms apart: deep arguments take exponential time"
        fix = 'give each form a field of its own constant, as Literal["add"], and the union a Field(discriminator=…)'
        yield Finding("warning", "type", tool.name, what, f"{fix}; until then calls that are nested deeply are refused")


def _check_providers(tool: Tool[..., Any]) -> Iterator[Finding]:
    schema: dict[str, Any] = {"properties": {}, **tool.definition()["parameters"], "type": "object"}
    for provider, _ in _PROVIDERS:
        changes = fit(schema, provider.lower()).changes
        if not changes:
            continue
        said = [f"{each.path}: {each.what}" if each.path else each.what for each in changes[:_MAX_CHANGES]]
        more = f"; and {len(changes) - len(said)} more" if len(changes) > len(said) else ""
        what = f"{provider} refuses the schema, and is sent another one: {'; '.join(said)}{more}"
        severity: Severity = "warning" if any(each.lost for each in changes) else "note"
        yield Finding(severity, "schema", tool.name, what, "write it so; until then calls are validated as it is")


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
    """The cost of each open tool by name: of its definition as the adapters send it, as JSON without blanks."""
    found: dict[str, TokenCost] = {}
    for name in registry.callable_names():
        view = registry.view([name])
        found[name] = TokenCost(_estimate_tokens(*openai.tools(view)), _estimate_tokens(*anthropic.tools(view)))
    return found


def _estimate_tokens(definition: object) -> int:
    return -(-len(json.dumps(definition, ensure_ascii=False, separators=(",", ":"))) // CHARACTERS_PER_TOKEN)
