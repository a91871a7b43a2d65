"""``toolcall demo``: sends the scripted calls through the standard pipeline and checks what becomes of them."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from textwrap import shorten
from time import perf_counter
from typing import NamedTuple
from urllib.parse import urlsplit

import anyio
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from toolcall_pipeline.middlewares import Trace, standard

from ...engine.call import is_failure
from ...engine.compose.pipeline import Pipeline
from ...messages import render
from ...privacy import dump_neutral_json, neutralise
from ...telemetry.setup import configure
from ...telemetry.span_tree import ASCII, UNICODE, duration_ms, format_reasons, walk_tree
from .demo_tools import (
    ANSWER,
    CORRECTED,
    NO_MISTAKE,
    PLANTED_KEY,
    QUESTION,
    SCRIPT,
    ScriptedCall,
    build_tools,
)

_MAX_ANSWER = 72  # characters of an answer in the table; it is printed in full before
_WIDE = 120  # columns
_BAR_WIDTHS = ((_WIDE, 22), (100, 12))  # columns of the terminal, and of a bar in it; narrower ones have no bars
_TIMEOUT = 30.0  # seconds per attempt; the tool that hangs has a limit of its own
_EXPORT_TIMEOUT = 3.0  # seconds; the exporter's own default of ten is long for a demo
_LOGGERS = ("toolcall_pipeline", "opentelemetry")  # the second one logs why spans could not be sent


def run(*, otlp: str | None, log: Path | None) -> int:
    """Play the conversation.

    Returns:
        0: every call ended as expected. 1: one did not, the secret leaked, or spans were lost.
    """
    console = Console(highlight=False)
    for name in ("fuzz", "process"):  # now, or the first answer to a wrong name would show the time of this import
        import_module(f"rapidfuzz.{name}")
    began = perf_counter()
    with log_to_file(log) as log_file:
        tracing = Tracing(otlp)
        with tempfile.TemporaryDirectory(prefix="toolcall-demo-") as folder:
            tools = build_tools(Path(folder))
            pipeline = standard(tools, timeout=_TIMEOUT, trace=Trace(tracer_provider=tracing.provider))
            _print_introduction(console, pipeline, [str(each["name"]) for each in tools.definitions()])
            played = anyio.run(_play, console, pipeline, tracing)
        seconds = perf_counter() - began
        _print_labelled(console, "model", ANSWER)
        print_summary(console, played)
        expected = sum(each.as_expected for each in played)
        console.print(f"{expected} of {len(played)} calls ended as expected, in {seconds:.1f} s.")
        leaked = _check_secret(console, played, log_file)
        tracing.telemetry.shutdown()
        lost = _check_export(console, otlp, tracing.telemetry.sent, played)
    return int(expected < len(played) or leaked or lost)


async def _play(console: Console, pipeline: Pipeline, tracing: Tracing) -> list[PlayedCall]:
    played: list[PlayedCall] = []
    for number, scripted in enumerate(SCRIPT, 1):
        outcome = await pipeline.call(scripted.name, scripted.arguments, id=f"call_{number}")
        kind = outcome.failure().kind if is_failure(outcome) else "success"
        played.append(PlayedCall(scripted, kind, render(outcome), tracing.take_spans()))
        note = "the exception with its stack trace is in the developer's log" if kind == "internal" else ""
        print_call(console, number, played[-1], note)
    return played


def _print_introduction(console: Console, pipeline: Pipeline, offered: list[str]) -> None:
    console.print("A conversation full of the mistakes that models make", style="bold")
    console.print()
    _print_labelled(console, "user", QUESTION)
    _print_labelled(console, "tools", ", ".join(offered))
    _print_labelled(console, "stages", " > ".join(pipeline.stages))
    console.print()


def _print_labelled(console: Console, label: str, text: str) -> None:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(style="dim", width=6)
    row.add_column(overflow="fold")
    row.add_row(label, text)
    console.print(row)


def _check_secret(console: Console, played: list[PlayedCall], log_file: Path) -> bool:
    """Print where the secret of the crash is; True if it is anywhere but in the log."""
    texts = [each.answer for each in played] + [span.to_json() for each in played for span in each.spans]
    if leaks := sum(PLANTED_KEY in text for text in texts):
        console.print(f"The key in the message of the crash LEAKED into {leaks} answers and spans.", style="bold red")
        return True
    console.print("The key in the message of the crash is in the developer's log and nowhere else:")
    console.print(f"  {log_file}", soft_wrap=True)
    return False


def _check_export(console: Console, otlp: str | None, sent: int, played: list[PlayedCall]) -> bool:
    """Print where the spans went; True if some were lost."""
    spans = sum(len(each.spans) for each in played)
    if otlp is None:
        console.print(f"{spans} spans in {len(played)} traces; --otlp http://localhost:4318 sends them to a collector.")
        return False
    if sent == spans:
        console.print(f"{spans} spans in {len(played)} traces went to {otlp}", soft_wrap=True)
        return False
    text = f"Error: {otlp} did not accept {spans - sent} of {spans} spans (is a collector running there?)"
    Console(stderr=True, highlight=False).print(text, style="red", soft_wrap=True)
    return True


def resolve_endpoint(url: str) -> str:
    """The URL that spans are posted to, with ``/v1/traces`` if it has no path; ValueError if it is not HTTP."""
    parts = urlsplit(url)
    _ = parts.port  # raises ValueError if it is not a port
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an http:// or https:// URL is needed, for example http://localhost:4318")
    return url if parts.path.strip("/") else parts._replace(path="/v1/traces").geturl()


class Tracing:
    """A tracer provider for the demo alone; the global one and the exporters of the environment are not touched."""

    def __init__(self, otlp: str | None = None) -> None:
        exporters: list[SpanExporter] = []
        if otlp is not None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporters.append(OTLPSpanExporter(otlp, timeout=_EXPORT_TIMEOUT))
        self.telemetry = configure(
            service_name="toolcall-demo",
            traces="none",
            metrics="none",
            logs="none",
            sampler=ALWAYS_ON,  # with OTEL_TRACES_SAMPLER=always_off in the environment there would be nothing to show
            exporters=exporters,
            globally=False,
        )
        self.provider = self.telemetry.tracer_provider
        self._kept = InMemorySpanExporter()
        if isinstance(self.provider, TracerProvider):  # not with OTEL_SDK_DISABLED
            self.provider.add_span_processor(SimpleSpanProcessor(self._kept))  # at once: each call shows its spans

    def take_spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that ended since the last time."""
        spans = self._kept.get_finished_spans()
        self._kept.clear()
        return spans


@contextmanager
def log_to_file(path: Path | None) -> Generator[Path]:
    """Send what the library logs to a file and nowhere else: to a new one that is kept, without a path. Yields it."""
    if path is None:
        with tempfile.NamedTemporaryFile(prefix="toolcall-demo-", suffix=".log", delete=False) as file:
            path = Path(file.name)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    try:
        yield path
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
        handler.close()


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
