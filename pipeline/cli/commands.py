"""What can be typed after ``toolcall``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .calling_commands import bench, call, run
from .mcp_commands import proxy, serve
from .usage import UsageError, print_command_errors


@click.group()
@click.version_option(package_name="toolcall-pipeline")
def toolcall() -> None:
    """List, check, call and run the tools that you give a language model."""


@toolcall.command()
@click.option("--otlp", metavar="URL", help="Also send the spans to this OTLP/HTTP endpoint: http://localhost:4318")
@click.option(
    "--log",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Append the developer's log, with stack traces, to this file.  [default: a new temporary file]",
)
def demo(otlp: str | None, log: Path | None) -> None:
    """Play a conversation full of the mistakes that models make.

    The tools and the pipeline are real; the model is a script.

    \b
    Exit code: 0    every call ended as expected
               1    a call did not, a secret leaked, or spans were lost
               2    an option has a wrong value: stderr says which
    """  # noqa: D301  # \b tells click to keep the line breaks
    from .demo.demo_command import run
    from .demo.tracing import resolve_endpoint

    try:
        url = None if otlp is None else resolve_endpoint(otlp)
    except ValueError as exc:
        raise UsageError(f"--otlp {otlp}: {exc}") from None
    try:
        if log is not None:
            log.open("a").close()  # fail before the conversation begins
    except OSError as exc:
        raise UsageError(f"--log {log}: {exc.strerror}") from None
    sys.exit(run(otlp=url, log=log))


@toolcall.command()
@click.argument("target", metavar="MODULE:REGISTRY")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the definitions of the open tools, as a model is offered them."
)
def tools(target: str, as_json: bool) -> None:  # noqa: FBT001  # as above
    """List your tools as a model sees them.

    MODULE:REGISTRY names a ToolRegistry, a Pipeline, or a function without required parameters that returns one. Tools
    that are closed are listed with the reason; a model is not offered them.
    """
    from .list_tools import print_tools

    with print_command_errors():
        print_tools(target, as_json=as_json)


@toolcall.command()
@click.argument("target", metavar="MODULE:REGISTRY")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
@click.option("--strict", is_flag=True, help="Exit with code 1 for warnings too.")
def lint(target: str, as_json: bool, strict: bool) -> None:  # noqa: FBT001  # as above
    """Check your tools and their texts for what models stumble over.

    No tool is run. Reported are missing descriptions, undeclared effects, names that a provider refuses, parameters
    without a type, and error texts that contain status codes, paths or class names.

    Then, for each tool: its cost in tokens (estimated at 4 characters per token), and the share of its error texts
    that are questions under the agentopia profile.

    \b
    Exit code: 0    no errors
               1    errors, or with --strict warnings
               2    MODULE:REGISTRY cannot be loaded: stderr says why
    """  # noqa: D301  # as above
    from .lint.lint_command import lint

    with print_command_errors():
        code = lint(target, as_json=as_json, strict=strict)
    sys.exit(code)


for command in (run, call, bench, proxy, serve):
    toolcall.add_command(command)
