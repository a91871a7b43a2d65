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
    from .demo import run
    from .tracing import endpoint

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
