"""The commands of ``toolcall``.

What a command takes is said where it is declared, and where it is done; click hands it on by name.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from .command_errors import UsageError, print_command_errors, run_command
from .journal_options import explain, improve, replay, report
from .operator_commands import approvals, audit, ledger
from .shared_options import Asked, asker_options, journal_option, store_option, wording_options
from .switch_options import switch


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
    from .demo.demo_command import resolve_endpoint, run

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
@click.option(
    "--provider",
    type=click.Choice(["openai", "anthropic", "gemini", "bedrock", "mistral", "ollama"]),
    help="Print what this provider does not take of the schemas, and is sent otherwise.",
)
@click.option("--strict", is_flag=True, help="With --provider openai: for its strict mode.")
def tools(target: str, as_json: bool, provider: str | None, strict: bool) -> None:  # noqa: FBT001  # click passes it by name
    """List your tools as a model sees them.

    MODULE:REGISTRY names a ToolRegistry, a Pipeline, or a function without required parameters that returns one. Tools
    that are closed are listed with the reason; a model is not offered them.
    """
    from .list_tools import print_tools

    with print_command_errors():
        if strict and provider != "openai":
            raise UsageError("--strict is a mode of --provider openai")
        print_tools(target, as_json=as_json, provider=provider, strict=strict)


@toolcall.command()
@click.argument("target", metavar="MODULE:REGISTRY")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
@click.option("--strict", is_flag=True, help="Exit with code 1 for warnings too.")
def lint(**options: Any) -> None:
    """Check your tools and their texts for what models stumble over.

    No tool is run. Reported are missing descriptions, undeclared effects, names that a provider refuses, parameters
    without a type, and error texts that contain status codes, paths or class names.

    Then, for each tool: its cost in tokens (estimated at 4 characters per token), and for a pipeline whose profile
    makes questions of errors, the share of error texts that are questions.

    \b
    Exit code: 0    no errors
               1    errors, or with --strict warnings
               2    MODULE:REGISTRY cannot be loaded: stderr says why
    """  # noqa: D301  # as above
    from .lint.lint_command import lint

    run_command(lint, **options)


@toolcall.command()
@click.argument("target", metavar="MODULE:REGISTRY")
@click.argument("calls", metavar="CALLS.jsonl", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "-o",
    "--output",
    metavar="RESULTS.jsonl",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write the results to this file, one JSON object per line; - is standard output.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 10_000),
    help="Calls that run at the same time.  [default: 50; with --executor process, one per worker]",
)
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(0, min_open=True), help="Per attempt.  [default: no limit]"
)
@click.option(
    "--attempts",
    metavar="N",
    type=click.IntRange(1),
    help="Attempts per call, the first one included.  [default: 3]",
)
@click.option(
    "--executor",
    type=click.Choice(["thread", "process", "ray"]),
    help="Where tools without a run_in of their own run. thread: sync tools in threads, async tools in the event loop. "
    "process: in processes of this machine, which --timeout can kill. ray: on the Ray cluster at RAY_ADDRESS, or on "
    "one started for this run.  [default: thread]",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(1),
    help="Threads, processes or Ray actors.  [default: one thread per concurrent call; one process or actor per "
    "processor]",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Run only the calls that have no result in RESULTS yet. A call that had begun when the last run ended, and "
    "that may have changed something, is not run again: its kind is outcome_unknown.",
)
@click.option("--rerun-unknown", is_flag=True, help="With --resume: run those calls again as well.")
@click.option(
    "--follow",
    is_flag=True,
    help="Write each result when its call ends, in the order of the ends.  [default: all at the end of the run, in the "
    "order of the lines]",
)
@asker_options
@wording_options
@journal_option
def run(**options: Any) -> None:
    """Run a file of calls, one JSON object per line.

    MODULE:REGISTRY names a ToolRegistry, a Pipeline, or a function without required parameters that returns one. The
    current directory is searched first.

    A call is {"id": ..., "name": ..., "arguments": ...}. "arguments" is an object, JSON text or null. "principal",
    "conversation", "finish_reason" and "timeout" are optional. Other keys and blank lines are ignored. The file "-" is
    standard input.

    RESULTS is written at the end, or with --follow as the calls end. A result has the keys line (the line of the call,
    from 1), id and name (as in the call), tool (the name it was resolved to, or null), ok, kind (of the error, or
    null), told (the text for the model), value, problems (of the arguments), attempts (how often the tool ran), tries
    (each attempt), ms, repairs. A line that is not a call gets a result of the kind malformed_line, and "told" says
    what is wrong with it.

    RESULTS.db keeps the results meanwhile, and RESULTS.ledger what began of the calls that may change something. Both
    are removed when each call has a result.

    Ctrl-C or SIGTERM starts no more calls and waits up to 5 seconds for the running ones. A second one does not wait.

    \b
    Exit code: 0    every call has a result, successful or not
               1    as 0, but some lines are malformed
               2    nothing was run, or the run stopped early: stderr says why
               130  interrupted by Ctrl-C (143: by SIGTERM)
    """  # noqa: D301  # as above
    from .run.run_command import run

    run_command(run, **options)


@toolcall.command()
@click.argument("target", metavar="MODULE:REGISTRY")
@click.argument("name")
@click.argument("arguments", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object, as a line of RESULTS.")
@click.option("--trace/--no-trace", default=True, help="Draw the stages and attempts on stderr.  [default: trace]")
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(0, min_open=True), help="For the whole call.")
@asker_options
@wording_options
@journal_option
def call(**options: Any) -> None:
    """Make one call, and print what the model is told.

    MODULE:REGISTRY names a ToolRegistry, a Pipeline, or a function without required parameters that returns one. The
    current directory is searched first. NAME and ARGUMENTS are what a model would send: ARGUMENTS is JSON text, and "-"
    reads it from standard input.

    The value or the error goes to stdout. The stages, the attempts and what the tool prints go to stderr.

    \b
    Exit code: 0    the call succeeded
               1    the call failed
               2    nothing was run: stderr says why
               130  interrupted by Ctrl-C
    """  # noqa: D301  # as above
    from .call_command import call

    run_command(call, **options)


@toolcall.command()
@click.argument("target", metavar="MODULE:PIPELINE")
@click.option("--call", nargs=2, metavar="NAME JSON", help="The call to measure.  [default: an example for a tool]")
@click.option(
    "--calls",
    metavar="CALLS.jsonl",
    type=click.Path(path_type=Path),
    help="Calls that take turns, one JSON object per line, as for `toolcall run`.",
)
@click.option(
    "--result", metavar="JSON", help="What the tools return meanwhile.  [default: what a tool that reads says]"
)
@click.option("--run-tools", is_flag=True, help="Run the tools, thousands of times and with all their effects.")
@click.option(
    "--stage",
    "stages",
    metavar="NAME",
    multiple=True,
    help="Measure this stage, and no failing calls; may be repeated.",
)
@click.option("--concurrency", metavar="N", type=click.IntRange(1), default=1, help="Calls at a time.  [default: 1]")
@click.option("--backend", type=click.Choice(["asyncio", "trio"]), default="asyncio", help="[default: asyncio]")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
@click.option(
    "--svg",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a chart with a bar for each stage.",
)
@click.option(
    "--compare",
    metavar="OLD.json",
    type=click.Path(path_type=Path),
    help="Say what got better or worse since an earlier run with --json.",
)
@asker_options
def bench(target: str, asked: Asked, **options: Any) -> None:
    """Say what a pipeline and each of its stages cost.

    MODULE:PIPELINE names a Pipeline, a ToolRegistry, or a function without required parameters that returns one. The
    current directory is searched first.

    Calls are made many thousand times, with and without each stage, and no tool runs meanwhile, whatever its effect:
    a stand-in returns in its place. Only a tool that reads runs once for each --call, to learn what it returns. Your
    middlewares run: what they write or send, they write or send each time.

    \b
    Exit code: 0    it was measured
               2    it was not: stderr says why
               130  interrupted by Ctrl-C
    """  # noqa: D301  # as above
    from .bench_command import BenchOptions, bench

    run_command(bench, target, options=BenchOptions(**options), asked=asked)


@toolcall.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What is decided about the server and its tools, in TOML.",
)
@click.option(
    "--trust-annotations",
    is_flag=True,
    help="Believe what the server says of the effects of its tools. Without it each tool may change something, and no "
    "call that may have taken effect is repeated.",
)
@click.option("--url", metavar="URL", help="Relay to a server over streamable HTTP. It needs the extra `mcp`.")
@click.option(
    "--header",
    "headers",
    metavar="HEADER",
    multiple=True,
    help="With --url: 'Authorization: Bearer ${TOKEN}', where ${TOKEN} is an environment variable.",
)
@wording_options
@journal_option
@store_option
@click.argument("command", metavar="[--] [COMMAND]...", nargs=-1, type=click.UNPROCESSED)
def proxy(**options: Any) -> None:
    """Stand between a client of MCP and the server that COMMAND starts.

    In the settings of a client, put `toolcall proxy --` in front of the command of the server. Calls of tools pass the
    standard pipeline: names are found, arguments repaired or refused with what is wrong, and safe calls repeated. All
    else passes as it came. A server that dies is started again.

    \b
    Exit code: 0    the client closed its end
               2    the server cannot be started, or an option is wrong: stderr says why
               130  interrupted by Ctrl-C (143: by SIGTERM)
               else that of a server that ended before it answered anything
    """  # noqa: D301  # as above
    from .proxy_command import proxy

    run_command(proxy, **options)


@toolcall.command()
@click.option(
    "--policy",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What is decided about the servers and their tools, in TOML, as for `toolcall proxy`.",
)
@click.option(
    "--trust-annotations",
    is_flag=True,
    help="Believe what the servers say of the effects of their tools. Without it each tool may change something.",
)
@wording_options
@journal_option
@store_option
@click.argument("config", metavar="CONFIG", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def gateway(**options: Any) -> None:
    """Stand between a client of MCP and several servers.

    CONFIG is a JSON file with `mcpServers`, as clients have it: servers over stdio, HTTP and SSE. Their tools are
    called SERVER_TOOL, and the calls of all of them pass one pipeline. A server that is away closes its own tools
    alone. It needs the extra `fastmcp`.

    \b
    Exit code: 0    the client closed its end
               2    nothing was served: stderr says why
               130  interrupted by Ctrl-C (143: by SIGTERM)
    """  # noqa: D301  # as above
    from .gateway_command import gateway

    run_command(gateway, **options)


@toolcall.command()
@click.argument("target", metavar="MODULE:PIPELINE")
@click.option(
    "--policy",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Rules that decide which calls run, in TOML. MODULE:PIPELINE must then be a ToolRegistry.",
)
@store_option
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="Serve many clients over streamable HTTP at http://HOST:PORT/mcp. PORT alone: this machine only.  [default: "
    "serve one client over stdin and stdout]",
)
@click.option(
    "--allow-host",
    "allowed",
    metavar="NAME",
    multiple=True,
    help="With --http: a further name by which clients may reach the server, needed for a HOST that others can reach.",
)
@asker_options
@wording_options
@journal_option
def serve(**options: Any) -> None:
    """Serve your tools to clients of MCP.

    MODULE:PIPELINE names a Pipeline, a ToolRegistry, or a function without required parameters that returns one. The
    current directory is searched first. What your tools print goes to stderr. It needs the extra `mcp`.

    Ctrl-C or SIGTERM, and the end of stdin, wait up to 5 seconds for the running calls. A second one does not wait.

    \b
    Exit code: 0    the client closed its end
               2    nothing was served: stderr says why
               130  interrupted by Ctrl-C (143: by SIGTERM)
    """  # noqa: D301  # as above
    from .serve_command import serve

    run_command(serve, **options)


@toolcall.group()
def policy() -> None:
    """Check the rules that decide which calls run."""


@policy.command()
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", metavar="MODULE:REGISTRY")
@click.option("--call", "sent", nargs=2, metavar="NAME JSON", help="Say which rule decides this call.")
@click.option("--principal", default="", help="With --call: who makes it.  [default: no principal]")
def check(file: Path, target: str, sent: tuple[str, str] | None, principal: str) -> None:
    """Print what the rules of FILE decide for each tool. No tool is run.

    MODULE:REGISTRY names a ToolRegistry, a Pipeline, or a function without required parameters that returns one.

    \b
    Exit code: 0    the policy is valid
               1    with --call: that call is refused before a rule is asked
               2    FILE is wrong, or MODULE:REGISTRY cannot be loaded: stderr says why
    """  # noqa: D301  # \b tells click to keep the line breaks
    from .policy_command import check_policy

    run_command(check_policy, file, target, sent, principal)


for command in (report, explain, replay, improve, approvals, ledger, audit, switch):
    toolcall.add_command(command)
