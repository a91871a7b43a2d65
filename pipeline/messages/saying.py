"""`say`: what the model is told of an error, in words for its profile and within its budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import ToolError
from ..public import PublicText
from .default import said
from .words import NORMAL, cut, sendable

if TYPE_CHECKING:
    from .profile import Profile
    from .templates import Words

_LONGEST = NORMAL.characters


def say(
    error: ToolError,
    *,
    profile: str | Profile = "default",
    previous: ToolError | None = None,
    verbosity: str = "normal",
    templates: Mapping[str, Words] | None = None,
    tool: str | None = None,
) -> PublicText:
    """What the model is told of an error: never empty, bounded in length, and never of what happened inside.

    ``profile`` is ``default``, ``llmproc``, ``rfc015``, ``structured``, ``agentopia``, ``invalid_tool`` or a `Profile`;
    ``templates`` go before those of the profile (see `templates`). ``previous`` is the error of the same tool's call
    before: then a sentence says what changed. ``verbosity`` is ``terse`` (a line a problem, 250 tokens), ``normal``
    (with a line that helps, 2,000) or ``full`` (with details and a valid example, 4,000; four characters a token).
    ``tool`` is the tool's name, for texts that say it and templates that are for it; where an error holds the name
    itself it may be left out. Raises SetupError for a profile, a verbosity or a template that does not exist or makes
    no sense, whether it would be used for this error or not.
    """
    if previous is None and templates is None and profile == "default" and verbosity == "normal":
        return PublicText(sendable(cut(said(error), _LONGEST)))
    from .telling import told

    return told(error, profile, previous, verbosity, templates, tool)
