"""Names, sentences, times and lists as text of bounded length. All texts for the model are made of these."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from typing_extensions import TypeIs

_MAX_NAME = 100  # characters of a name that a model invented
_MAX_WAIT = 10**6  # seconds: eleven days
_WHOLE = 10  # seconds; from here on fractions do not matter
_SHORTEST = 0.01  # seconds
_PREFIXES = ("error: ", "question: ")
_READ_FOR_A_LINE = 20  # characters that are read for each one that is shown; the rest may be long


def replace_surrogates(text: str) -> str:
    """Replace each lone surrogate, which cannot be encoded, by a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def truncate(text: str, longest: int) -> str:
    """Return at most ``longest`` characters of a text. One final "…" shows that some are left out."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip().removesuffix('…')}…"


def to_one_line(text: str, longest: int) -> str:
    """Return at most ``longest`` characters of a text, on one line."""
    text = text[: _READ_FOR_A_LINE * longest]
    if not text.isprintable():
        text = " ".join(text.split())
    return truncate(text.strip(), longest)


def shorten(name: str, longest: int = _MAX_NAME) -> str:
    """Return at most ``longest`` characters of a name, on one line."""
    name = name if len(name) <= longest else f"{name[:longest]}…"
    if name.isprintable():
        return name
    return "".join(each if each.isprintable() else " " if each.isspace() else "?" for each in name)


def as_sentence(text: str) -> str:
    """Add a full stop, unless the text ends a sentence already."""
    return text if text.endswith((".", "!", "?")) else text + "."


def strip_prefix(text: str) -> str:
    """Remove the "Error: " and "Question: " at the start."""
    for prefix in _PREFIXES:
        if text[: len(prefix)].lower() == prefix:
            text = text[len(prefix) :]
    return text


def add_prefix(text: str) -> str:
    """Add "Error: " at the start, unless that or "Question: " is there already."""
    return text if text.lower().startswith(_PREFIXES) else f"Error: {text}"


def join_names(names: Sequence[str], most: int) -> str:
    """Join the first ``most`` names with commas, and add how many more there are."""
    shown = names[:most]
    text = ", ".join(shown)
    if not text.isprintable() or (len(text) > _MAX_NAME and max(map(len, shown)) > _MAX_NAME):
        text = ", ".join(map(shorten, shown))
    return text if len(names) <= most else f"{text} and {len(names) - most} more"


def is_known_time(seconds: float | None) -> TypeIs[float]:
    """Whether a time can be shown: it is not None, NaN, infinite or longer than eleven days."""
    return seconds is not None and abs(seconds) < _MAX_WAIT


def format_wait(seconds: float) -> str:
    """Return a time to wait, such as "3 seconds"; see `round_wait`."""
    return format_count(round_wait(seconds), "second")


def round_wait(seconds: float) -> int:
    """Return whole seconds to wait, rounded up, at least one: a call before its time would be refused again."""
    return max(1, ceil(round(seconds, 1)))


def format_seconds(seconds: float) -> str:
    """Return an elapsed time, such as "0.95 seconds": in whole seconds from ten on, else with two digits."""
    number = round_seconds(seconds)
    return f"{number} second{'' if number == '1' else 's'}"


def round_seconds(seconds: float) -> str:
    """Return the number of `format_seconds`."""
    if seconds >= _WHOLE:
        return f"{seconds:.0f}"
    return f"{float(f'{max(seconds, _SHORTEST) if seconds > 0 else 0:.2g}'):g}"


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 tool" or "1,250 tools"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def count_fitting(texts: Sequence[str], room: int, between: int) -> int:
    """Return how many of the first texts fit, at least one if there is any."""
    for number, text in enumerate(texts):
        room -= len(text) + between
        if room < 0:
            return max(1, number)
    return len(texts)


def join_blocks(blocks: Sequence[str], room: int, more: str, left_out: int) -> str:
    """Join as many blocks of lines as fit, then ``more`` with the number of the others.

    The first block is always included: the caller keeps each of them short.
    """
    if len(blocks) == 1 and not left_out:
        return blocks[0]
    left = room - len(more) - 20
    fitting = 0
    for block in blocks:
        left -= len(block) + 1
        if fitting and left < 0:
            break
        fitting += 1
    missing = len(blocks) - fitting + left_out
    return "\n".join([*blocks[:fitting], more.format(missing)] if missing else blocks)
