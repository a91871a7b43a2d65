"""Findings in the texts that a model would get for the errors of a tool."""

from __future__ import annotations

from collections.abc import Iterator

from .error_texts import ErrorTexts
from .findings import Finding, Severity, quote


def check_error_texts(tool: str, texts: ErrorTexts) -> Iterator[Finding]:
    """One finding for each flaw, with the first text that has it: a name or a description brought it there."""
    first = {each.flaw: each for each in reversed(texts.flawed)}
    for flaw, each in first.items():
        what = f"the text of the error {each.kind} contains a {flaw}: {quote(each.text)}"
        severity: Severity = "error" if flaw == "status code" else "warning"  # the others may be what the tool is about
        yield Finding(severity, "text", tool, what, "reword the name or description that it comes from")
