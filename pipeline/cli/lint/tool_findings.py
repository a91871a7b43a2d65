"""What ``toolcall lint`` finds in the tools themselves: names, descriptions, parameters, effects; and their cost."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

import attrs

from ...adapters import anthropic, openai
from ...adapters.provider_names import ANTHROPIC, OPENAI, sent_names
from ...messages.text import A_TOKEN
from ...tools.definition import Tool
from ...tools.registry import ToolRegistry
from ..list_tools import parameters

Severity: TypeAlias = Literal["error", "warning", "note"]
_PROVIDERS = (("OpenAI", OPENAI), ("Anthropic", ANTHROPIC))
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_READS = frozenset(
    "check count describe fetch find get grep inspect list lookup query read search show stat view which".split()  # noqa: SIM905
)
_CHANGES = frozenset(
    "add append buy cancel charge create delete drop edit insert move pay post publish put remove rename replace reset "  # noqa: SIM905
    "send set submit transfer update upload write".split()
)
_OF_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_OF_VALUES = ("default", "enum", "const", "examples")


@attrs.frozen
class Finding:
    """One thing to put right, or to know."""

    severity: Severity
    rule: str  # description, name, effect, type, verify_with, text, expect, source, schema
    tool: str  # "" is the file alone
    what: str
    fix: str
    place: str = ""  # file:line, of a text


@attrs.frozen
class Cost:
    """About how many tokens the definition of one tool is, each time that a model is offered it."""

    openai: int
    anthropic: int


def costs(registry: ToolRegistry) -> dict[str, Cost]:
    """By name, of every tool that is open, as the adapters send it: JSON without blanks, four characters a token."""
    sent = zip(registry.callable_names(), openai.tools(registry), anthropic.tools(registry), strict=True)
    return {name: Cost(*map(_tokens, both)) for name, *both in sent}


def _tokens(definition: object) -> int:
    return -(-len(json.dumps(definition, ensure_ascii=False, separators=(",", ":"))) // A_TOKEN)


def findings_of_tools(
    registry: ToolRegistry, declared: Mapping[str, bool], known: Collection[str]
) -> Iterator[Finding]:
    """Tool by tool. ``declared``: whether its source gives an effect, where that can be seen; ``known``: all names."""
    sent = [(provider, longest, sent_names(registry, longest)) for provider, longest in _PROVIDERS]
    for tool in registry:
        yield from _name(tool, [(provider, longest, names[tool.name]) for provider, longest, names in sent])
        yield from _descriptions(tool)
        yield from _types(tool)
        yield from _effect(tool, declared.get(tool.name))
        if tool.verify_with is not None and tool.verify_with not in known:
            what = f"a model is told to check with {tool.verify_with}, which is no tool here"
            yield Finding("error", "verify_with", tool.name, what, "name the tool that tells whether a call landed")


def _name(tool: Tool[..., Any], sent: list[tuple[str, int, str]]) -> Iterator[Finding]:
    refused = [each for each in sent if each[-1] != tool.name]
    if not refused:
        return
    who = " and ".join(provider for provider, *_ in refused)
    _, longest, wire = refused[0]
    if len(tool.name) > longest:
        why = f"it has {len(tool.name)} characters, and {longest} are allowed"
    else:
        why = "letters from a to z, digits, _ and - are allowed"
    what = f"{who} {'refuses' if len(refused) == 1 else 'refuse'} its name: {why}"
    yield Finding("warning", "name", tool.name, what, f"give it name=; until then the adapters send {wire}")


def _descriptions(tool: Tool[..., Any]) -> Iterator[Finding]:
    if not (tool.description or "").strip():
        what = "it has no description: its name is all that a model knows of it"
        yield Finding("error", "description", tool.name, what, "write a docstring, or give it description=")
    every = _inside(tool, "properties").items()
    bare = [name for name, inner in every if not str(_mapping(inner).get("description") or "").strip()]
    if bare:
        what = f"parameters without a description: {', '.join(bare)}"
        fix = "say what each is for, in the docstring's Args: or in the schema"
        yield Finding("warning", "description", tool.name, what, fix)


def _types(tool: Tool[..., Any]) -> Iterator[Finding]:
    schema: dict[str, Any] = tool.definition()["parameters"]
    if schema == {"type": "object"}:
        what = "it takes any object: a model has to guess its parameters, and nothing is checked"
        yield Finding("warning", "type", tool.name, what, "declare its parameters")
    if untyped := [each.path for each in parameters(schema) if each.type == "any"]:
        what = f"parameters without a type: {', '.join(untyped)}"
        yield Finding("warning", "type", tool.name, what, "annotate them: anything that a model sends is taken")
    named = {**_inside(tool, "properties"), **_inside(tool, "$defs")}
    if arrays := [name for name, inner in named.items() if _has_bare_array(inner)]:
        what = f"arrays without items, for which OpenAI refuses the whole request: {', '.join(arrays)}"
        yield Finding("error", "type", tool.name, what, 'say what they hold, as in "items": {"type": "string"}')


def _effect(tool: Tool[..., Any], declared: bool | None) -> Iterator[Finding]:  # noqa: FBT001  # three answers
    words = [word.lower() for word in _WORDS.findall(tool.name)]
    changes = not _CHANGES.isdisjoint(words)
    reads = not _READS.isdisjoint(words) and not changes
    if tool.effect == "read" and changes and _READS.isdisjoint(words):
        what = "declared to be a read, so failures are retried, and its name says that it changes something"
        yield Finding("warning", "effect", tool.name, what, 'where it does: effect="mutating", "idempotent" or "keyed"')
    elif tool.effect == "mutating" and (declared is False or (declared is None and reads)):
        what = (
            "its effect is not declared" if declared is False else "its effect is mutating, and it is named like a read"
        )
        fix = 'effect="read"' if reads else 'effect="mutating", "read", "idempotent" or "keyed"'
        yield Finding("warning", "effect", tool.name, f"{what}: no failure of it is retried", f"declare {fix}")


def _inside(tool: Tool[..., Any], key: str) -> Mapping[str, Any]:
    return _mapping(tool.definition()["parameters"].get(key))


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _has_bare_array(schema: object) -> bool:
    """Whether an array somewhere in a schema says nothing of its items."""
    waiting = [schema]
    while waiting:
        node: Any = waiting.pop()
        if isinstance(node, list):
            waiting += cast("list[Any]", node)
            continue
        found = _mapping(node)
        kinds = found.get("type")
        is_array = "array" in cast("list[object]", kinds) if isinstance(kinds, list) else kinds == "array"
        if is_array and "items" not in found and "prefixItems" not in found:
            return True
        for key, inner in found.items():
            if key in _OF_SCHEMAS:  # whose keys are names of the user's own
                waiting += _mapping(inner).values()
            elif key not in _OF_VALUES:
                waiting.append(inner)
    return False
