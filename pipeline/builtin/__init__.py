"""The tools that are shipped: `batch`, several calls in one, `invalid`, for unknown names, and `read_result`."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..base.setup_error import SetupError
from ..engine.compose.pipeline import Pipeline
from ..tools.registry import ToolRegistry
from .batch_tool import Batch
from .invalid_tool import Invalid
from .read_result_tool import ReadResult, find_shape

__all__ = ["Batch", "Invalid", "ReadResult", "install"]

_OFF = frozenset(("", "0", "false", "no", "off"))


def install(
    tools: ToolRegistry,
    pipeline: Pipeline,
    *,
    batch: bool | Batch = True,
    invalid: bool | Invalid = True,
    read_result: bool | ReadResult = True,
    when: Callable[[], bool] | None = None,
    environment: str | None = None,
) -> tuple[str, ...]:
    """Register our tools. Call it last, with the pipeline that is used and that you keep a reference to.

    Args:
        tools: The registry of that pipeline, or the one behind its view.
        pipeline: The tools work as long as it lives. Calls in a batch go through the pipeline that called it.
        batch: Whether to install `Batch`, or one with other options: ``Batch(most=10)``. Default True.
        invalid: Whether to install `Invalid`, or one with other options. Default True.
        read_result: Whether to install `ReadResult` if the pipeline has a `Shape` that keeps results, or one with
            another name. Default True.
        when: Asked once, now; False: nothing is installed. Default None: not asked.
        environment: A variable, read once, now. If it is unset, empty, ``0``, ``false``, ``no`` or ``off``, nothing is
            installed. Default None: not read.

    Returns:
        The names of the tools that were installed.

    Raises:
        SetupError: The pipeline has another registry, or a name is taken, as it is when this is called twice.
    """
    if pipeline.registries and not any(each.tools is tools.tools for each in pipeline.registries):
        raise SetupError(f"install: {pipeline!r} has another registry; give install() the registry of that pipeline")
    if when is not None and not when():
        return ()
    if environment is not None and os.environ.get(environment, "").strip().lower() in _OFF:
        return ()
    chosen: list[Batch | Invalid | ReadResult] = []
    if batch:
        chosen.append(Batch() if batch is True else batch)
    if invalid:
        chosen.append(Invalid() if invalid is True else invalid)
    if read_result and (shape := find_shape(pipeline)) is not None:
        chosen.append(ReadResult(shape) if read_result is True else read_result)
    for each in chosen:
        tools.register(each.tool())
        each.attach(pipeline)
    return tuple(each.name for each in chosen)
