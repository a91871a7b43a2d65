"""What it costs to offer a tool to a model."""

from __future__ import annotations

import json

import attrs

from ...adapters import anthropic, openai
from ...messages.style import CHARACTERS_PER_TOKEN
from ...tools.view import ToolView


@attrs.frozen
class TokenCost:
    """Estimated tokens of a tool's definition, which a request pays each time that it offers the tool."""

    openai: int
    anthropic: int


def estimate_costs(registry: ToolView) -> dict[str, TokenCost]:
    """The cost of each open tool by name: of its definition as the adapters send it, as JSON without blanks."""
    sent = zip(registry.callable_names(), openai.tools(registry), anthropic.tools(registry), strict=True)
    return {name: TokenCost(*map(_estimate_tokens, definitions)) for name, *definitions in sent}


def _estimate_tokens(definition: object) -> int:
    return -(-len(json.dumps(definition, ensure_ascii=False, separators=(",", ":"))) // CHARACTERS_PER_TOKEN)
