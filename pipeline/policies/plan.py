"""The text for a call that is planned and not run."""

from __future__ import annotations

from returns.result import Success

from ..call import ValidCall
from ..messages import render
from ..privacy import PublicText, approved
from .facts import make_plain_arguments

_SHOWN = 2_000  # characters of the arguments


def describe_plan(call: ValidCall) -> PublicText:
    """Say which tool would run, with which arguments; declared secrets are masked. For the reason of a NotExecuted."""
    secrets = call.tool.parameters.secrets
    arguments = make_plain_arguments(call)
    shown = render(Success(arguments if secrets is None else secrets.redact(arguments)), limit=_SHOWN)
    return approved(f"only a plan was asked for; {call.tool.name} would run with {shown}")
