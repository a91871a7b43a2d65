"""The pipeline that a policy file describes, for calls of tools that servers of MCP have."""

from __future__ import annotations

from typing import Any

from toolcall_pipeline.middlewares import Timeout, Trace, standard

from ..engine.compose import Pipeline
from ..policies.relay_policy import RelayPolicy
from ..tools import ToolRegistry


def make_pipeline(registry: ToolRegistry, policy: RelayPolicy, /, **options: Any) -> Pipeline:
    """The pipeline that calls pass, for a registry that is filled later."""
    telemetry = policy.telemetry
    trace = Trace(
        redact=policy.make_redact(),
        content=None if telemetry is None else telemetry.content,
        stages=True if telemetry is None else telemetry.stages,
    )
    said: dict[str, Any] = {
        "timeout": policy.timeout,
        "attempts": policy.attempts,
        "canonical_names": policy.canonical_names,
        "limits": policy.limits.of_arguments(),
        "wording": policy.wording,
        "policy": policy,
        "trace": trace,
    }
    pipeline = standard(registry, **{**said, **options})
    is_limited = any(tool.timeout is not None for tool in policy.tools.values())
    return pipeline.after("retry", Timeout(None)) if is_limited and "timeout" not in pipeline.stages else pipeline
