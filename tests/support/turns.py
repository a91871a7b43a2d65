"""A model mends its call step by step, and each text has to say what changed; see `LastFailures`."""

from __future__ import annotations

from typing import Any

import attrs

from toolcall_pipeline import Pipeline, ToolRegistry
from toolcall_pipeline.middlewares import standard


def send(to: str, date: int) -> str:
    """Send a letter.

    Args:
        to: The name of the receiver.
        date: The day of the month.
    """
    return f"sent to {to} on {date}"


def make() -> Pipeline:
    """The pipeline of this tool, for ``toolcall serve``."""
    tools = ToolRegistry()
    tools.tool(effect="read")(send)
    return standard(tools)


@attrs.frozen
class Turn:
    """One turn of the model.

    Attributes:
        sent: The arguments of the call of `send` that it makes.
        read: A part of each line that it reads then, of the call alone.
        change: The line behind these, which says what changed. "": there is none.
    """

    sent: dict[str, Any]
    read: tuple[str, ...]
    change: str = ""

    def as_first(self) -> Turn:
        """The same call where nothing is known of those before it."""
        return attrs.evolve(self, change="")


WRONG = "for date: must be an integer"
AGAIN = "This is the same call again: it was refused 3 times. Change it, or go on without it."
BOTH: dict[str, Any] = {"to": [1], "date": "soon"}
HALF: dict[str, Any] = {"to": "Ann", "date": "soon"}
TURNS = (
    Turn(BOTH, ("for to: must be a string", WRONG)),
    Turn(HALF, (WRONG,), "`to` is fixed, `date` is still wrong."),
    Turn(HALF, (WRONG,), "These are the same arguments as before."),
    Turn(HALF, (WRONG,), AGAIN),
    Turn({"to": "Ann", "date": 5}, ("sent to Ann on 5",)),
    Turn({"to": "Ben", "date": "soon"}, (WRONG,)),  # nothing is remembered of what succeeded
)
RUNS = (TURNS[:2], TURNS[2:])  # the model may end its turn, and a user write again, within one conversation
OTHER = (Turn(HALF, (WRONG,)),)  # another conversation, between them


def check_turns(texts: list[str], turns: tuple[Turn, ...] = TURNS) -> None:
    """The texts that the model read say what changed since its last failure, and nothing else."""
    assert len(texts) == len(turns), texts
    for text, turn in zip(texts, turns, strict=True):
        lines = text.split("\n")
        told, changes = lines[: len(turn.read)], lines[len(turn.read) :]
        assert all(part in line for part, line in zip(turn.read, told, strict=True)), text
        assert changes == ([turn.change] if turn.change else []), text
