"""enhance: rewrites the technical text of a foreign error for a model, by the rules of the Agentopia document."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from ..privacy import PublicText
from .text import replace_surrogates

_MAX_TEXT = 2_000  # characters of the foreign text
# With word boundaries, which the document does not have: it finds its "what " in "somewhat ".
_INTERACTIVE = r"(?i)\bquestion:|\bwhat\s|\bplease provide\b|\bwhich\s|\bhow\s"
_SET_UP = r"(?i)\bapi[ _-]?key|authenticat|unauthori[sz]ed|\bnot set up\b"
_NAME = r"[A-Za-z_][\w.:-]{0,99}"


_LATER = re.compile(
    r"\brate.?limit|too many requests|\btimed? ?out\b|\btemporar|\bunavailable\b|\boverloaded\b"
    r"|\b(?:429|502|503|504)\b",
    re.IGNORECASE,
)


def enhance(text: str, tool: str = "") -> PublicText:
    """Rewrite a foreign text so that a model can act on it. Calling this function approves the rest of the text.

    - A question stays as it is.
    - A missing parameter of a tool of a known family becomes the question of that family.
    - A text about a key or a log-in becomes the request to set the service up.
    - A text about a limit, a time-out or a busy service becomes the advice to try again later.
    - Any other text follows after "Please provide the correct parameters for this tool."

    Status codes, URLs, class names, stacks, paths and keys are removed in any case, see `scrub`.

    Args:
        text: The text of a foreign error.
        tool: The name of the tool, for its family and for texts that contain it. Default "": no name.
    """
    from ..privacy import scrub
    from .profiles.agentopia import FAMILIES, MISSING, SET_UP

    text = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT].rpartition(" ")[0]
    left = scrub(text)
    if left and re.search(_INTERACTIVE, left):
        return PublicText(replace_surrogates(left))
    family = next((name for name, tools in FAMILIES.items() if any(fnmatchcase(tool, each) for each in tools)), None)
    lower = text.lower()
    if family is not None and "missing" in lower and "parameter" in lower:
        return PublicText(MISSING[family])
    name = tool if re.fullmatch(_NAME, tool) and scrub(tool) == tool else "this tool"
    if re.search(_SET_UP, text):
        return PublicText(_ask_for_set_up(name) if family is None else SET_UP[family])
    if re.search(_LATER, text):
        return PublicText(f"{name} cannot answer now. Try again later.")
    request = f"Please provide the correct parameters for {name}."
    return PublicText(replace_surrogates(f"{request} {left}" if left else request))


def _ask_for_set_up(tool: str) -> str:
    return (
        f"Question: The service behind {tool} needs to be set up. Please ensure that its integration is properly "
        "configured with valid credentials."
    )
