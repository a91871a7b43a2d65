"""The tools that are shipped: `batch`, several calls in one, and `invalid`, an answer to unknown names."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..compose.pipeline import Pipeline
from ..errors import SetupError
from ..tools.registry import ToolRegistry
from .batch_tool import Batch
from .invalid_tool import Invalid

__all__ = ["Batch", "Invalid", "install"]

_OFF = frozenset(("", "0", "false", "no", "off"))


def install(
    tools: ToolRegistry,
    pipeline: Pipeline,
    *,
    batch: bool | Batch = True,
    invalid: bool | Invalid = True,
    when: Callable[[], bool] | None = None,
    environment: str | None = None,
) -> tuple[str, ...]:
    """Register the two with the pipeline's registry, or one of them; the names of what was installed.

    Last of all, and the pipeline is the one that is used: calls in a batch go through it, and it must be held by
    somebody. ``batch=Batch(most=10)`` is one with other limits. Nothing is installed where ``when()`` is false, nor
    where the environment variable ``environment`` is unset, empty, ``0``, ``false``, ``no`` or ``off``; both are
    asked once, now. Raises SetupError where a name is taken, with both origins, so the second time as well; and for a
    pipeline of another registry.
    """
    if pipeline.registries and not any(each.tools is tools.tools for each in pipeline.registries):
        raise SetupError(f"{pipeline!r} has another registry than the one to install with")
    if when is not None and not when():
        return ()
    if environment is not None and os.environ.get(environment, "").strip().lower() in _OFF:
        return ()
    chosen: list[Batch | Invalid] = []
    if batch:
        chosen.append(Batch() if batch is True else batch)
    if invalid:
        chosen.append(Invalid() if invalid is True else invalid)
    for each in chosen:
        tools.register(each.tool())
        each.attach(pipeline)
    return tuple(each.name for each in chosen)
