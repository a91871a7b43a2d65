"""Approvals and guardrails of a tool of the OpenAI Agents SDK: they judge the arguments that will run."""

from __future__ import annotations

import dataclasses
import inspect
import json
from copy import copy
from typing import Any

from ..call import Call
from ..compose import Pipeline
from .checked_arguments import foresee


def judge_repaired(tool: Any, pipeline: Pipeline) -> dict[str, Any]:
    """The fields of a function tool whose functions are to see the arguments as the pipeline repairs them.

    Args:
        tool: It is not changed.
        pipeline: Runs its calls.
    """
    changed: dict[str, Any] = {}
    if callable(needs_approval := tool.needs_approval):

        async def judge(context: Any, params: Any, call_id: str) -> Any:
            valid = foresee(pipeline, Call(tool.name, params))
            return await wait_for(needs_approval(context, params if valid is None else dict(valid.params), call_id))

        changed["needs_approval"] = judge
    if tool.tool_input_guardrails:
        changed["tool_input_guardrails"] = [_show_repaired(each, pipeline) for each in tool.tool_input_guardrails]
    return changed


def _show_repaired(guardrail: Any, pipeline: Pipeline) -> Any:
    async def judge(data: Any) -> Any:
        valid = foresee(pipeline, Call(data.context.tool_name, data.context.tool_arguments))
        if valid is not None and valid.repairs:
            seen = copy(data.context)
            seen.tool_arguments = json.dumps(valid.params)
            data = dataclasses.replace(data, context=seen)
        return await wait_for(guardrail.guardrail_function(data))

    return dataclasses.replace(guardrail, guardrail_function=judge, name=guardrail.get_name())


async def wait_for(answer: Any) -> Any:
    """What a function of the user answers, sync or async."""
    return await answer if inspect.isawaitable(answer) else answer
