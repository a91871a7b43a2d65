"""Verbosity: how much a text for the model may say."""

from __future__ import annotations

from typing import NamedTuple, cast

from ..errors import SetupError

CHARACTERS_PER_TOKEN = 4  # the usual estimate for English; no tokeniser is asked


class Verbosity(NamedTuple):
    """How much a text for the model may say.

    Args:
        name: The name by which `render` knows it.
        tokens: The budget of the whole text, in tokens of `CHARACTERS_PER_TOKEN`.
        max_problems: How many problems of one call are shown. A list of a thousand wrong items has one cause.
        max_expected: Characters of the text that says what is expected of one parameter.
        hints: Whether a line of help follows the line of a problem, and a text about missing parameters ends with the
            form of valid arguments.
        details: Whether all further details are shown, and the form of valid arguments for any wrong parameter.
    """

    name: str
    tokens: int
    max_problems: int
    max_expected: int
    hints: bool
    details: bool

    @property
    def characters(self) -> int:
        """The budget of the whole text, in characters."""
        return self.tokens * CHARACTERS_PER_TOKEN


TERSE = Verbosity("terse", 250, 20, 300, hints=False, details=False)
NORMAL = Verbosity("normal", 2_000, 20, 1_000, hints=True, details=False)
FULL = Verbosity("full", 4_000, 50, 2_000, hints=True, details=True)
_VERBOSITIES = {each.name: each for each in (TERSE, NORMAL, FULL)}


def get_verbosity(name: str) -> Verbosity:
    """The verbosity of that name.

    Raises:
        SetupError: No verbosity has that name.
    """
    found = _VERBOSITIES.get(name) if isinstance(cast("object", name), str) else None
    if found is None:
        raise SetupError(f"unknown verbosity {name!r}; known: {', '.join(_VERBOSITIES)}")
    return found
