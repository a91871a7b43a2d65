"""What may be written after ``toolcall``."""

from __future__ import annotations

import sys
from pathlib import Path

import click


class _Usage(click.ClickException):
    """Told in one line, without the usage around it."""

    exit_code = 2


@click.group()
@click.version_option(package_name="toolcall-pipeline")
def toolcall() -> None:
    """Every tool call of your model in, one typed outcome out."""


@toolcall.command()
@click.option("--otlp", metavar="URL", help="Send the spans to this OTLP/HTTP endpoint too: http://localhost:4318")
@click.option(
    "--log",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Append the developer's log, with its stacks, to this file.  [default: a new temporary file]",
)
def demo(otlp: str | None, log: Path | None) -> None:
    """A conversation full of the mistakes that models make, run for real."""
    from .demo.demo_command import run
    from .demo.tracing import endpoint

    try:
        url = None if otlp is None else endpoint(otlp)
    except ValueError as exc:
        raise _Usage(f"--otlp {otlp}: {exc}") from None
    try:
        if log is not None:
            log.open("a").close()  # now, and not in the middle of it
    except OSError as exc:
        raise _Usage(f"--log {log}: {exc.strerror}") from None
    sys.exit(run(otlp=url, log=log))


@toolcall.command()
@click.argument("target", metavar="MODULE:REGISTRY")
@click.argument("calls", metavar="CALLS.jsonl", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "-o",
    "--output",
    metavar="RESULTS.jsonl",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the results go, one JSON object a line.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 10_000),
    help="Calls at a time.  [default: 50, or as many as there are processes]",
)
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(0, min_open=True), help="For each attempt.  [default: none]"
)
@click.option("--attempts", metavar="N", type=click.IntRange(1), help="In all, the first one included.  [default: 3]")
@click.option(
    "--executor",
    type=click.Choice(["thread", "process", "ray"]),
    help="Where the tools run that do not say: sync ones in threads; all in processes of this machine, which --timeout "
    "can end; all on the Ray cluster at RAY_ADDRESS, or one started here.  [default: thread]",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(1),
    help="Threads, processes or actors.  [default: as many threads as calls at a time; one for each processor]",
)
@click.option(
    "--resume", is_flag=True, help="Go on with what RESULTS lacks; what was under way when it ended is run again."
)
def run(
    target: str,
    calls: str,
    output: Path,
    concurrency: int | None,
    timeout: float | None,
    attempts: int | None,
    executor: str | None,
    workers: int | None,
    resume: bool,  # noqa: FBT001  # click hands it by name
) -> None:
    """Run a file of calls, one a line: {"id": ..., "name": ..., "arguments": ...}.

    MODULE:REGISTRY names a ToolRegistry, a Pipeline, or a function without arguments that makes one; the current
    directory is looked in first. "arguments" is an object, JSON text or null; "principal", "finish_reason" and
    "timeout" may be there too, any other key is ignored, and so are blank lines. "-" reads standard input.

    Each line has one result, written when its call ends: line (its number, from 1), id and name (as they came), tool
    (the one it was resolved to, or null), ok, kind (of the error, or null), told (the text for the model), attempts
    (runs of the tool), ms, repairs. A line that holds no call has the kind malformed_line, and "told" says what is
    wrong with it.

    Ctrl-C or SIGTERM begins no more calls and waits a moment for those under way; a second one does not wait.

    \b
    Exit code: 0    every line was run, however its call came out
               1    every line was run but malformed ones
               2    nothing was run, or not all: stderr says why
               130  interrupted (143 by SIGTERM)
    """  # noqa: D301  # click's mark for text that keeps its lines
    from .loading import Refused
    from .run.run_command import run

    try:
        code = run(
            target,
            calls,
            output,
            concurrency=concurrency,
            timeout=timeout,
            attempts=attempts,
            executor=executor,
            workers=workers,
            resume=resume,
        )
    except Refused as exc:
        raise _Usage(str(exc)) from None
    sys.exit(code)


@toolcall.command()
@click.argument("target", metavar="MODULE:REGISTRY")
@click.option(
    "--json", "as_json", is_flag=True, help="The definitions of the tools that are open, as a model is offered them."
)
def tools(target: str, as_json: bool) -> None:  # noqa: FBT001  # as above
    """List a registry, or a pipeline's, as a model sees it; tools that are closed are marked."""
    from .list_tools import show
    from .loading import Refused

    try:
        show(target, as_json=as_json)
    except Refused as exc:
        raise _Usage(str(exc)) from None


@toolcall.command()
@click.argument("target", metavar="MODULE:REGISTRY")
@click.option("--json", "as_json", is_flag=True, help="What was found as one JSON object.")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
def lint(target: str, as_json: bool, strict: bool) -> None:  # noqa: FBT001  # as above
    """Look through your tools and their texts for what models stumble over; no tool is run.

    Missing descriptions, effects that nobody declared, names that a provider refuses, parameters without a type, error
    texts with status codes, paths or class names; what each tool costs in tokens, by the estimate of 4 characters a
    token; how much of what a model would be told is in question form under the agentopia profile.

    \b
    Exit code: 0    no errors
               1    errors, or with --strict warnings
               2    MODULE:REGISTRY is nothing that could be looked at: stderr says why
    """  # noqa: D301  # as above
    from .lint.lint_command import lint
    from .loading import Refused

    try:
        code = lint(target, as_json=as_json, strict=strict)
    except Refused as exc:
        raise _Usage(str(exc)) from None
    sys.exit(code)
