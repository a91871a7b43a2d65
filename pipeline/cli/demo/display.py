"""How the demo looks in a terminal, and in a file: each call with what it was told and its spans, then a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from textwrap import shorten
from typing import NamedTuple

from opentelemetry.sdk.trace import ReadableSpan
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ...telemetry.span_tree import ASCII, DRAWN, lines, milliseconds, why
from .script import CORRECTED, FINE, Turn

_SHORT = 72  # characters of what was told, in the table: it stands in full above
_ROOMY = 120  # columns
_BARS = ((_ROOMY, 22), (100, 12))  # columns of the terminal, and of a bar in it; below there is no room for any


class Played(NamedTuple):
    """A turn, and what came of it."""

    turn: Turn
    kind: str
    told: str
    spans: Sequence[ReadableSpan]

    @property
    def call(self) -> ReadableSpan | None:
        """The span of the whole call."""
        return next((span for span in self.spans if span.parent is None), None)

    @property
    def runs(self) -> int:
        """How often the tool was run, as the call's span says."""
        told = (self.call.attributes or {}).get("toolcall.attempts") if self.call else None
        return told if isinstance(told, int) else -1

    @property
    def as_expected(self) -> bool:
        """Whether it came out as the conversation has it."""
        return (self.kind, self.runs) == (self.turn.kind, self.turn.runs)


def call(console: Console, number: int, played: Played, note: str = "") -> None:
    """One call: what the model sent, what it is told, and the spans."""
    turn = played.turn
    console.rule(Text(f"{number}  {turn.mistake}", "yellow" if _at_fault(turn) else "dim"), align="left", style="dim")
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    rows.add_row("sent", Text.assemble((turn.name, "bold"), f" {sent(turn)}"))
    rows.add_row("told", Text(played.told.rstrip("\n"), "green" if played.kind == "success" else "red"))
    rows.add_row("spans", _spans(played, console))
    if note:
        rows.add_row("log", note)
    console.print(rows)
    console.print()


def sent(turn: Turn) -> str:
    """The arguments exactly as they came: an object, or a text in its quotes."""
    return json.dumps(turn.arguments, ensure_ascii=False)


def _at_fault(turn: Turn) -> bool:
    return not turn.mistake.startswith((FINE, CORRECTED))


def _spans(played: Played, console: Console) -> RenderableType:
    top = played.call
    if top is None:
        return Text("none: is OTEL_SDK_DISABLED set?", "red")
    ascii_only = console.options.ascii_only
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=28)
    table.add_column(justify="right", no_wrap=True, min_width=9)
    width = next((bar for columns, bar in _BARS if console.width >= columns), 0)
    if width:
        table.add_column(no_wrap=True, width=width)
    table.add_column(overflow="fold")
    for guide, span in lines(played.spans, ASCII if ascii_only else DRAWN):
        failed = not span.status.is_ok
        colour = "red" if failed else ""
        label = Text.assemble((guide, "dim"), (span.name, colour))
        time = Text(f"{milliseconds(span):.2f} ms", colour)
        bar = [Text(_bar(top, span, width, "=" if ascii_only else "━"), colour or "blue")] if width else []
        table.add_row(label, time, *bar, Text(why(span), colour or "cyan"))
    return table


def _bar(top: ReadableSpan, span: ReadableSpan, width: int, mark: str) -> str:
    """When, within the call, and how long."""
    whole = max(milliseconds(top), 1e-6)
    begins = min(width - 1, int(width * ((span.start_time or 0) - (top.start_time or 0)) / 1e6 / whole))
    return " " * begins + mark * max(1, min(width - begins, round(width * milliseconds(span) / whole)))


def summary(console: Console, played: Sequence[Played]) -> None:
    """All calls in one table."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, leading=0)
    table.add_column("#", justify="right", style="dim")
    table.add_column("the model sent / mistake", overflow="fold")
    table.add_column("outcome", no_wrap=True)
    table.add_column("runs", justify="right")
    table.add_column("ms", justify="right", no_wrap=True)
    table.add_column("told, in short", overflow="fold")
    for number, each in enumerate(played, 1):
        turn = each.turn
        colour = "yellow" if _at_fault(turn) else "dim"
        asked = Text.assemble((_foldable(turn.name, console), "bold"), "\n", (turn.mistake, colour))
        outcome = Text(each.kind, "green" if each.kind == "success" else "red")
        if not each.as_expected:
            outcome.append(f"\nexpected {turn.kind}\nin {turn.runs} runs", "bold red reverse")
        time = f"{milliseconds(each.call):.1f}" if each.call else "-"
        table.add_row(str(number), asked, outcome, str(each.runs), time, _foldable(in_short(each.told), console))
    console.print(table)


def _foldable(text: str, console: Console) -> str:
    """Where there is little room, with a line's end after a server's prefix: better there than anywhere."""
    return text if console.width >= _ROOMY else text.replace("__", "__\n")


def in_short(told: str) -> str:
    """The line of it that helps most, cut to a length that a table can hold."""
    lines = told.splitlines() or [""]
    line = next((line for line in lines if line.startswith("Did you mean")), lines[0]).removeprefix("Error: ")
    return shorten(line, _SHORT, placeholder=" ...")
