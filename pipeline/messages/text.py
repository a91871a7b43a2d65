"""How much a text may say, and the small change of all of them: names, sentences and lists that are bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from typing_extensions import TypeIs

from ..errors import SetupError

A_TOKEN = 4  # characters, the usual estimate for English; no tokeniser is asked
_LONGEST_NAME = 100  # characters of a name that nothing has: the model knows what it wrote
_EVER = 10**6  # seconds; who is told of eleven days does not wait


class Verbosity(NamedTuple):
    """How much a text may say."""

    name: str
    tokens: int  # of `A_TOKEN` characters, for the whole text
    problems: int  # of one call; a list of a thousand wrong items has one cause
    wanted: int  # characters on what one parameter should hold
    hints: bool  # lines that help, under the line of the problem
    details: bool  # all that is known besides, and a valid example

    @property
    def characters(self) -> int:
        """The budget of the whole text."""
        return self.tokens * A_TOKEN


TERSE = Verbosity("terse", 250, 20, 300, hints=False, details=False)
NORMAL = Verbosity("normal", 2_000, 20, 1_000, hints=True, details=False)
FULL = Verbosity("full", 4_000, 50, 2_000, hints=True, details=True)
_VERBOSITIES = {each.name: each for each in (TERSE, NORMAL, FULL)}


def verbosity_of(name: str) -> Verbosity:
    """The verbosity of a name. Raises SetupError for another."""
    found = _VERBOSITIES.get(name) if isinstance(cast("object", name), str) else None
    if found is None:
        raise SetupError(f"no verbosity is called {name!r}; there are {', '.join(_VERBOSITIES)}")
    return found


def sendable(text: str) -> str:
    """The text, with a question mark for each lone surrogate, which no wire could carry."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def short(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name of bounded length, on one line."""
    name = name if len(name) <= longest else f"{name[:longest]}…"
    if name.isprintable():
        return name
    return "".join(each if each.isprintable() else " " if each.isspace() else "?" for each in name)


def one_line(text: str, longest: int) -> str:
    """A text of bounded length, on one line."""
    if not text.isprintable():
        text = " ".join(text.split())
    return cut(text.strip(), longest)


def cut(text: str, longest: int) -> str:
    """A text of bounded length; "…" stands for what is left out."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def ended(text: str) -> str:
    """A text as a sentence."""
    return text if text.endswith((".", "!", "?")) else text + "."


def listed(names: Sequence[str], most: int) -> str:
    """Names with commas between, those beyond the first few as a number."""
    told = ", ".join(map(short, names[:most]))
    return told if len(names) <= most else f"{told} and {len(names) - most} more"


def unmarked(text: str) -> str:
    """A text without the mark that says what it is."""
    return text.removeprefix("Error: ").removeprefix("Question: ")


def sayable(seconds: float | None) -> TypeIs[float]:
    """Whether it is a time that one may wait: a number, and neither NaN nor without end."""
    return seconds is not None and abs(seconds) < _EVER


def whole_seconds(seconds: float) -> str:
    """A time to wait, in words."""
    whole = max(1, round(seconds))
    return f"{whole} second{'' if whole == 1 else 's'}"


def assembled(blocks: Sequence[str], room: int, more: str, untold: int = 0) -> str:
    """Blocks of lines, as many as there is room for; then ``more`` with the number of the others, ``untold`` included.

    The first block is always there; whoever makes blocks keeps each of them short.
    """
    if len(blocks) == 1 and not untold:
        return blocks[0]
    left = room - len(more) - 20
    told = 0
    for block in blocks:
        left -= len(block) + 1
        if told and left < 0:
            break
        told += 1
    others = len(blocks) - told + untold
    return "\n".join([*blocks[:told], more.format(others)] if others else blocks)
