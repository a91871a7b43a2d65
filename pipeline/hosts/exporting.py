"""What the modules share that give a registry to a framework as tools of its own."""

from __future__ import annotations

from typing import Any

from ..adapters.common import build_definitions
from ..tools import ToolRegistry
from ..tools.provider_names import OPENAI


def list_offered(registry: ToolRegistry) -> list[tuple[dict[str, Any], str]]:
    """``{"name", "description", "parameters"}`` of each tool that may be called now, and the tool's own name.

    Args:
        registry: The tools. A name that providers refuse is given in a form that they accept.
    """
    return list(zip(build_definitions(registry, OPENAI, "parameters"), registry.callable_names(), strict=True))
