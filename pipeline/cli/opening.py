"""Opens what the pipeline of a command holds, such as its connections, while the command makes its calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ..compose.pipeline import Pipeline
from ..privacy import get_logger
from .command_error import CommandError
from .user_exceptions import describe_exception

_logger = get_logger()


@asynccontextmanager
async def open_pipeline(pipeline: Pipeline, target: str) -> AsyncGenerator[None]:
    """Open it for the block. What fails to close is logged: the calls have been made, and their results hold.

    Args:
        pipeline: The pipeline.
        target: What the command calls it: MODULE:PIPELINE.

    Raises:
        CommandError: One of its stages does not open.
    """
    opened = ended = False
    try:
        async with pipeline:
            opened = True
            yield
            ended = True
    except Exception as exc:
        if not opened:
            raise CommandError(f"{target} does not open: {describe_exception(exc)}") from exc
        if not ended:
            raise
        _logger.exception("%s does not close", target)
