"""Ask the person at a client of MCP to approve a call, by elicitation."""

from __future__ import annotations

from typing import Any, Final

from ..approvals import Approval, Approvals
from ..call import Call, Outcome, is_failure
from ..compose import Pipeline
from ..errors import AwaitingApproval, SetupError
from ..privacy import dump_neutral_json, get_logger, neutralise
from ..stores import StoreError
from ..tools.failure import ToolFailed

_SHOWN: Final = 4_000  # characters of the arguments; a person who cannot see them all is not asked
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": ["approve", "reject"]},
        "message": {"type": "string", "title": "Words for the model", "description": "Optional."},
    },
    "required": ["decision"],
}
_log = get_logger()


def find_approvals(pipeline: Pipeline) -> Approvals | None:
    """The calls of a pipeline that wait for a person; None: it asks no person."""
    stage: Any = next((each.obj for each in pipeline.entries if each.placement.kind == "approve"), None)
    return None if stage is None else stage.approvals


def describe(approval: Approval) -> str | None:
    """A call in words for a person, who sees each character of it; None: it is too long to be judged so."""
    arguments = dump_neutral_json(approval.arguments, indent=2)
    if len(arguments) > _SHOWN:
        return None
    reason = f"\nReason: {neutralise(approval.reason)}" if approval.reason else ""
    return f"Let the tool {neutralise(approval.tool)} run with these arguments?\n{arguments}{reason}"


async def ask_person(context: Any, approvals: Approvals, call: Call, outcome: Outcome) -> bool:
    """Ask the client about a call that waits, if it can be asked.

    Args:
        context: The context of the request, whose session asks.
        approvals: Where the call waits.
        call: The call.
        outcome: Its outcome.

    Returns:
        Whether a decision was made, so that the same call now gets its answer. False: the call does not wait, the
        client cannot ask, or its user has not decided.
    """
    if not is_failure(outcome) or not isinstance(waiting := outcome.failure(), AwaitingApproval):
        return False
    able = context.session.client_capabilities
    if able is None or able.elicitation is None:
        return False
    try:
        approval = await approvals.get(waiting.id)
        text = None if approval is None else describe(approval)
        if text is None:
            return False
        answer = await context.session.elicit_form(text, _SCHEMA, related_request_id=context.request_id)
        content: dict[str, Any] = answer.content or {}
        if answer.action == "cancel":
            return False
        by = call.principal or "the user of the MCP client"
        message = str(content.get("message") or "")
        if answer.action == "accept" and content.get("decision") == "approve":
            await approvals.approve(waiting.id, by=by, message=message)
        else:
            await approvals.reject(waiting.id, by=by, message=message)
    except (StoreError, SetupError, ToolFailed) as exc:
        _log.warning("Tool %.200r: its user was not asked: %s", call.name, type(exc).__name__)
        return False
    return True
