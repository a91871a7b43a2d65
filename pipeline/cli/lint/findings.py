"""Finding: one line of the report. The modules that look for findings share it, and import nothing of each other."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from ...privacy import neutralise
from ..terminal_text import fit_on_one_line

Severity: TypeAlias = Literal["error", "warning", "note"]
_MAX_QUOTED = 60  # characters


@attrs.frozen
class Finding:
    """One thing to correct, or to know. ``--json`` prints it with these names.

    Args:
        severity: ``error`` and, with ``--strict``, ``warning`` make the exit code 1.
        rule: What was checked: description, name, effect, type, verify_with, text, expect, source or schema.
        tool: The name of the tool; "" if the finding belongs to a file.
        what: What is wrong.
        fix: What to do about it.
        place: ``file:line`` of a text in the source; "" for other findings.
    """

    severity: Severity
    rule: str
    tool: str
    what: str
    fix: str
    place: str = ""


def quote(text: str) -> str:
    """The beginning of a text in quotes, on one line."""
    return f"'{neutralise(fit_on_one_line(text, _MAX_QUOTED))}'"
