"""Ask the person at a client of MCP to approve a call, by elicitation. A server and a relay ask the same question."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import anyio
import attrs

from ..approvals import Approval, Approvals
from ..call import Call, Outcome, is_failure
from ..compose import Pipeline
from ..errors import AwaitingApproval, SetupError
from ..privacy import dump_neutral_json, get_logger, neutralise
from ..stores import StoreError
from ..tools.failure import ToolFailed
from .jsonrpc import Message, read_object

PATIENCE: Final = 600.0  # seconds for a person to answer; the SDK's state of a request lives as long
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


@attrs.frozen
class Question:
    """A question to the person at a client.

    Args:
        approval: The id of the call that it is about.
        text: The call in words.
    """

    approval: str
    text: str

    @property
    def params(self) -> Message:
        """The params of ``elicitation/create``."""
        return {"message": self.text, "requestedSchema": _SCHEMA}


# Shows a question; returns the result of ``elicitation/create``, in the spelling of the protocol.
Ask: TypeAlias = Callable[[Question], Awaitable[Message]]


def find_approvals(pipeline: Pipeline) -> Approvals | None:
    """The calls of a pipeline that wait for a person; None: it asks no person."""
    stage: Any = next((each.obj for each in pipeline.entries if each.placement.kind == "approve"), None)
    return None if stage is None else stage.approvals


def takes_forms(capabilities: Message) -> bool:
    """Whether a client shows forms, by its capabilities: one that names no mode of elicitation does."""
    modes = capabilities.get("elicitation")
    return isinstance(modes, dict) and ("form" in modes or not modes)


def describe(approval: Approval) -> str | None:
    """A call in words for a person, who sees each character of it; None: it is too long to be judged so."""
    arguments = dump_neutral_json(approval.arguments, indent=2)
    if len(arguments) > _SHOWN:
        return None
    reason = f"\nReason: {neutralise(approval.reason)}" if approval.reason else ""
    return f"Let the tool {neutralise(approval.tool)} run with these arguments?\n{arguments}{reason}"


async def find_question(approvals: Approvals, call: Call, outcome: Outcome) -> Question | None:
    """The question about a call; None: it does not wait, or it cannot be shown whole."""
    if not is_failure(outcome) or not isinstance(waiting := outcome.failure(), AwaitingApproval):
        return None
    try:
        approval = await approvals.get(waiting.id)
    except StoreError as exc:
        _give_up(call, exc)
        return None
    text = None if approval is None else describe(approval)
    return None if text is None else Question(waiting.id, text)


async def ask_person(ask: Ask, approvals: Approvals, call: Call, outcome: Outcome) -> bool:
    """Ask the client about a call that waits.

    Args:
        ask: Shows a question to the person at the client.
        approvals: Where the call waits.
        call: The call.
        outcome: Its outcome.

    Returns:
        Whether a decision was made, so that the same call now gets its answer. False: the call does not wait, or the
        user of the client has not decided.
    """
    question = await find_question(approvals, call, outcome)
    if question is None:
        return False
    answer: Message = {}
    try:
        with anyio.move_on_after(PATIENCE):
            answer = await ask(question)
    except ToolFailed as exc:
        _give_up(call, exc)
    return await decide(approvals, call, question.approval, answer)


async def decide(approvals: Approvals, call: Call, id_: str, answer: Message) -> bool:
    """Decide as the person at the client did. Returns False if there is no decision in the answer."""
    content = read_object(answer, "content")
    decision = content.get("decision") if answer.get("action") == "accept" else answer.get("action")
    by = call.principal or "the user of the MCP client"
    words = content.get("message")
    message = words if isinstance(words, str) else ""
    try:
        if decision == "approve":
            await approvals.approve(id_, by=by, message=message)
        elif decision in ("reject", "decline"):
            await approvals.reject(id_, by=by, message=message)
        else:
            return False
    except (StoreError, SetupError) as exc:
        _give_up(call, exc)
        return False
    return True


def _give_up(call: Call, exc: Exception) -> None:
    _log.warning("Tool %.200r: its user was not asked: %s", call.name, type(exc).__name__)
