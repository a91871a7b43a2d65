"""What the modules share that give a registry to a framework as tools of its own."""

from __future__ import annotations

from typing import Any

from ..adapters.common import build_definitions, to_parts
from ..call import Outcome
from ..messages.parts import File, Image, find_media
from ..provider_names import OPENAI
from ..tools import ToolView


def list_offered(registry: ToolView) -> list[tuple[dict[str, Any], str]]:
    """``{"name", "description", "parameters"}`` of each tool that may be called now, and the tool's own name.

    Args:
        registry: The tools. A name that providers refuse is given in a form that they accept.
    """
    return list(zip(build_definitions(registry, OPENAI, "parameters"), registry.callable_names(), strict=True))


def list_media(outcome: Outcome[Any]) -> list[str | Image | File] | None:
    """What a tool returned as texts, images and PDF files, in order; None if it is text alone.

    Args:
        outcome: Of the call. Parts that models do not take are mentioned in a text.
    """
    shown = [find_media(part) or str(part) for part in to_parts(outcome)]
    return None if all(isinstance(part, str) for part in shown) else shown
