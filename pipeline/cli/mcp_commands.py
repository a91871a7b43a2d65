"""The commands of the Model Context Protocol: ``proxy`` and ``serve``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .usage import print_command_errors


@click.command(context_settings={"allow_interspersed_args": False})
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
@click.argument("command", metavar="[--] [COMMAND]...", nargs=-1, type=click.UNPROCESSED)
def proxy(
    config: Path | None,
    trust_annotations: bool,  # noqa: FBT001  # click passes it by name
    url: str | None,
    headers: tuple[str, ...],
    command: tuple[str, ...],
) -> None:
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

    with print_command_errors():
        code = proxy(command, config=config, trust_annotations=trust_annotations, url=url, headers=headers)
    sys.exit(code)


@click.command()
@click.argument("target", metavar="MODULE:PIPELINE")
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
def serve(target: str, http: str | None, allowed: tuple[str, ...]) -> None:
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

    with print_command_errors():
        code = serve(target, http=http, allowed=allowed)
    sys.exit(code)
