"""`enhance`: the technical text of a foreign error -> a question, by the rules of the Agentopia document."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from ..privacy import PublicText
from .text import sendable

_LONGEST = 2_000  # characters of the foreign text
# Compiled at first use. With word boundaries, which the document has not: its "what " is in "somewhat ", too.
_INTERACTIVE = r"(?i)\bquestion:|\bwhat\s|\bplease provide\b|\bwhich\s|\bhow\s"
_SET_UP = r"(?i)\bapi[ _-]?key|authenticat|unauthori[sz]ed"
_NAME = r"[A-Za-z_][\w.:-]{0,99}"


def enhance(text: str, tool: str = "") -> PublicText:
    """A text that a model can go on with; to call this is to approve of what is left of the foreign text.

    What is a question already stays as it is. A missing parameter of a tool of a known family becomes that family's
    question, and whatever is about a key or a log-in becomes the request to set the service up. All else is told
    behind "Please provide the correct parameters". Status codes, URLs, class names, stacks, paths and keys are taken
    out of it in any case (see `scrub`).
    """
    from .profiles.agentopia import FAMILIES, MISSING, SET_UP
    from .scrub import scrub

    text = text if len(text) <= _LONGEST else text[:_LONGEST].rpartition(" ")[0]
    left = scrub(text)
    if left and re.search(_INTERACTIVE, left):
        return PublicText(sendable(left))
    family = next((name for name, tools in FAMILIES.items() if any(fnmatchcase(tool, each) for each in tools)), None)
    lower = text.lower()
    if family is not None and "missing" in lower and "parameter" in lower:
        return PublicText(MISSING[family])
    named = tool if re.fullmatch(_NAME, tool) and scrub(tool) == tool else "this tool"
    if re.search(_SET_UP, text):
        return PublicText(_set_up(named) if family is None else SET_UP[family])
    asked = f"Please provide the correct parameters for {named}."
    return PublicText(sendable(f"{asked} {left}" if left else asked))


def _set_up(tool: str) -> str:
    return (
        f"Question: The service behind {tool} needs to be set up. Please ensure that its integration is properly "
        "configured with valid credentials."
    )
