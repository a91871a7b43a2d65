"""The stack that most people want, and why it is in this order."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline import Pipeline, Stack, ToolRegistry
from pipeline.executors import Executor

from .available import Available
from .classify import Classify
from .execute import Execute
from .resolve import Resolve
from .retry import Retry
from .timeout import Timeout
from .trace import Trace
from .validate import Validate


def standard(
    tools: ToolRegistry,
    *,
    timeout: float | None = None,
    attempts: int = 3,
    canonical_names: bool = False,
    executor: Executor | None = None,
    executors: Mapping[str, Executor] | None = None,
) -> Pipeline:
    """The seven stages; with ``timeout`` (seconds for an attempt) an eighth, ``timeout``, inside of ``retry``.

    ``attempts`` counts the first one. ``canonical_names`` is told at `Resolve`, ``executor`` and ``executors``, where
    the tools run, at `Execute`.
    """
    pipeline = (
        Stack()
        .observe(Trace())  # outermost: a refusal is part of the story too
        .check(Resolve(tools, canonical_names=canonical_names))
        .check(Available(tools))  # before validate: nobody should mend arguments for a closed tool
        .check(Validate())  # last of the checks: from here on params are what the tool asked for
        .wrap(Retry(attempts))  # inside of the checks: a bad name never gets better
        .wrap(Classify())  # inside of retry, which reads its verdict
        .end(Execute(executor, executors=executors or {}))
    )
    # Inside of retry: each attempt has its own limit, and a hanging first one leaves time for the next.
    return pipeline if timeout is None else pipeline.after("retry", Timeout(timeout))
