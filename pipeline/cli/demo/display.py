"""The demo in a terminal or a file: each call with its answer and its spans, and a table of all calls."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten
from typing import NamedTuple

from opentelemetry.sdk.trace import ReadableSpan
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ...privacy import dump_neutral_json, neutralise
from ...telemetry.span_tree import ASCII, UNICODE, duration_ms, format_reasons, walk_tree
from .demo_tools import CORRECTED, NO_MISTAKE, ScriptedCall

_MAX_ANSWER = 72  # characters of an answer in the table; it is printed in full before
_WIDE = 120  # columns
_BAR_WIDTHS = ((_WIDE, 22), (100, 12))  # columns of the terminal, and of a bar in it; narrower ones have no bars


class PlayedCall(NamedTuple):
    """A scripted call and what became of it."""

    scripted: ScriptedCall
    kind: str  # success, or the kind of the error
    answer: str  # the text for the model
    spans: Sequence[ReadableSpan]

    @property
    def root_span(self) -> ReadableSpan | None:
        """The span of the whole call."""
        return next((span for span in self.spans if span.parent is None), None)

    @property
    def runs(self) -> int:
        """Number of runs of the tool, by the span of the call; -1 without a span."""
        attempts = (self.root_span.attributes or {}).get("toolcall.attempts") if self.root_span else None
        return attempts if isinstance(attempts, int) else -1

    @property
    def as_expected(self) -> bool:
        """Whether kind and runs are as the script says."""
        return (self.kind, self.runs) == (self.scripted.kind, self.scripted.runs)


def print_call(console: Console, number: int, played: PlayedCall, note: str = "") -> None:
    """One call: what the model sent, the answer that it gets, and the spans; ``note`` is about the log."""
    scripted = played.scripted
    style = "yellow" if _is_mistake(scripted) else "dim"
    console.rule(Text(f"{number}  {scripted.mistake}", style), align="left", style="dim")
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    rows.add_row("sent", Text.assemble((neutralise(scripted.name), "bold"), f" {format_arguments(scripted)}"))
    rows.add_row(
        "answer",
        Text(neutralise(played.answer.rstrip("\n"), keep_lines=True), "green" if played.kind == "success" else "red"),
    )
    rows.add_row("spans", _render_spans(played, console))
    if note:
        rows.add_row("log", note)
    console.print(rows)
    console.print()


def format_arguments(scripted: ScriptedCall) -> str:
    """The arguments exactly as the model sent them: an object, or a string in its quotes."""
    return dump_neutral_json(scripted.arguments)


def _is_mistake(scripted: ScriptedCall) -> bool:
    return not scripted.mistake.startswith((NO_MISTAKE, CORRECTED))


def _render_spans(played: PlayedCall, console: Console) -> RenderableType:
    root = played.root_span
    if root is None:
        return Text("none: is OTEL_SDK_DISABLED set?", "red")
    ascii_only = console.options.ascii_only
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=28)
    table.add_column(justify="right", no_wrap=True, min_width=9)
    width = next((bar for columns, bar in _BAR_WIDTHS if console.width >= columns), 0)
    if width:
        table.add_column(no_wrap=True, width=width)
    table.add_column(overflow="fold")
    for guide, span in walk_tree(played.spans, ASCII if ascii_only else UNICODE):
        style = "" if span.status.is_ok else "red"
        label = Text.assemble((guide, "dim"), (neutralise(span.name), style))
        time = Text(f"{duration_ms(span):.2f} ms", style)
        bar = [Text(_draw_bar(root, span, width, "=" if ascii_only else "━"), style or "blue")] if width else []
        table.add_row(label, time, *bar, Text(format_reasons(span), style or "cyan"))
    return table


def _draw_bar(root: ReadableSpan, span: ReadableSpan, width: int, mark: str) -> str:
    """The start of a span within its call, and its duration, as a bar."""
    whole = max(duration_ms(root), 1e-6)
    start = min(width - 1, int(width * ((span.start_time or 0) - (root.start_time or 0)) / 1e6 / whole))
    return " " * start + mark * max(1, min(width - start, round(width * duration_ms(span) / whole)))


def print_summary(console: Console, played: Sequence[PlayedCall]) -> None:
    """All calls in one table."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, leading=0)
    table.add_column("#", justify="right", style="dim")
    table.add_column("call / mistake", overflow="fold")
    table.add_column("outcome", no_wrap=True)
    table.add_column("runs", justify="right")
    table.add_column("ms", justify="right", no_wrap=True)
    table.add_column("answer, shortened", overflow="fold")
    for number, each in enumerate(played, 1):
        scripted = each.scripted
        style = "yellow" if _is_mistake(scripted) else "dim"
        call = Text.assemble(
            (_make_foldable(neutralise(scripted.name), console), "bold"), "\n", (scripted.mistake, style)
        )
        outcome = Text(each.kind, "green" if each.kind == "success" else "red")
        if not each.as_expected:
            outcome.append(f"\nexpected {scripted.kind}\nin {scripted.runs} runs", "bold red reverse")
        time = f"{duration_ms(each.root_span):.1f}" if each.root_span else "-"
        answer = _make_foldable(neutralise(shorten_answer(each.answer)), console)
        table.add_row(str(number), call, outcome, str(each.runs), time, answer)
    console.print(table)


def _make_foldable(text: str, console: Console) -> str:
    """In a narrow terminal, break a name after its server's prefix rather than anywhere."""
    return text if console.width >= _WIDE else text.replace("__", "__\n")


def shorten_answer(answer: str) -> str:
    """The most helpful line of an answer, cut to fit the table."""
    lines = answer.splitlines() or [""]
    line = next((line for line in lines if line.startswith("Did you mean")), lines[0]).removeprefix("Error: ")
    return shorten(line, _MAX_ANSWER, placeholder=" ...")
