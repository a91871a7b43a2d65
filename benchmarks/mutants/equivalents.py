"""Mutants that no test can notice, each with the reason."""

from __future__ import annotations

# By file, function, operator and source text, so that a row holds when lines move.
EQUIVALENT: dict[str, str] = {}
