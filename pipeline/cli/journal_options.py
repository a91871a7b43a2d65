"""``toolcall report``, ``explain``, ``replay`` and ``improve``: their arguments, options and help."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .command_errors import print_command_errors

_journal = click.argument("journal", metavar="JOURNAL", type=click.Path(path_type=Path))


@click.command()
@_journal
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
@click.option("--html", metavar="FILE", type=click.Path(path_type=Path), help="Write a page with charts, in one file.")
@click.option(
    "--jsonl", metavar="FILE", type=click.Path(path_type=Path), help="Write the calls, one JSON object a line."
)
def report(journal: Path, as_json: bool, html: Path | None, jsonl: Path | None) -> None:  # noqa: FBT001  # as above
    """Say which calls fail, of how many, and whose fault it is.

    JOURNAL is a file that --journal, or standard(tools, journal=…), has written; or the lines that --jsonl wrote.

    \b
    Exit code: 0    the report is written
               2    JOURNAL cannot be read, or FILE not be written: stderr says why
    """  # noqa: D301  # as above
    from .journal_commands import report

    with print_command_errors():
        report(journal, as_json=as_json, html=html, jsonl=jsonl)


@click.command()
@_journal
@click.argument("call_id", metavar="CALL_ID")
@click.option("--json", "as_json", is_flag=True, help="Print each call and its sentences as one JSON array.")
def explain(journal: Path, call_id: str, as_json: bool) -> None:  # noqa: FBT001  # as above
    """Say in sentences what happened to a call, and why.

    CALL_ID is the provider's id of the call. #7 is the seventh call of the journal, for calls without an id. If several
    calls have the id, each is explained.

    \b
    Exit code: 0    it is explained
               2    JOURNAL cannot be read, or has no such call: stderr says why
    """  # noqa: D301  # as above
    from .journal_commands import explain

    with print_command_errors():
        explain(journal, call_id, as_json=as_json)


@click.command()
@_journal
@click.argument("target", metavar="MODULE:PIPELINE")
@click.option("--json", "as_json", is_flag=True, help="Print the changes as one JSON object.")
@click.option(
    "--pytest",
    "test",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write a test that says what each recorded call comes to in this pipeline now.",
)
@click.option(
    "--run-reads", is_flag=True, help="Run the body of a tool that only reads, where no equal call is recorded."
)
def replay(journal: Path, target: str, as_json: bool, test: Path | None, run_reads: bool) -> None:  # noqa: FBT001
    """Say what recorded calls come to in a changed pipeline.

    MODULE:PIPELINE names a Pipeline, a ToolRegistry, or a function without required parameters that returns one. The
    current directory is searched first.

    No tool runs: a body is answered with what is recorded of the call, or of an equal one. A call that would run now,
    and has no record, is counted. No stage waits, and nothing is recorded.

    \b
    Exit code: 0    each call comes to the same
               1    some come to something else
               2    JOURNAL cannot be read, or MODULE:PIPELINE not be loaded: stderr says why
    """  # noqa: D301  # as above
    from .journal_commands import replay

    with print_command_errors():
        sys.exit(replay(journal, target, as_json=as_json, test=test, run_reads=run_reads))


@click.command()
@_journal
@click.argument("target", metavar="MODULE:PIPELINE")
@click.option("--json", "as_json", is_flag=True, help="Print the proposals as one JSON array.")
@click.option(
    "--at-least",
    metavar="N",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Propose nothing for fewer failures.",
)
def improve(journal: Path, target: str, as_json: bool, at_least: int) -> None:  # noqa: FBT001  # as above
    """Propose changes of your tools, with the evidence of a journal, as patches.

    MODULE:PIPELINE names a Pipeline, a ToolRegistry, or a function without required parameters that returns one. The
    current directory is searched first.

    Proposed are aliases for names that the model invents, examples for parameters that it leaves out, reveal= for
    exceptions that crash often, and verify_with=, verify= or effect= for calls that end unknown. An alias is tried with
    the recorded calls: what it would have saved, and what it would have broken. Nothing is applied, and no tool runs.

    \b
    Exit code: 0    what was found is printed
               2    JOURNAL cannot be read, or MODULE:PIPELINE not be loaded: stderr says why
    """  # noqa: D301  # as above
    from .journal_commands import improve

    with print_command_errors():
        improve(journal, target, as_json=as_json, at_least=at_least)
