"""``toolcall switch``: pause, resume, disable and enable, for every process of a store."""

from __future__ import annotations

from typing import Any

import click

from .command_errors import UsageError, run_command
from .operator_commands import StoreGroup, by_option, json_option, pass_store, secret_file_option

_VERBS = {
    "pause": "Close TOOL, the calls of a principal or everything, until `resume`.",
    "resume": "Take back a pause: NAME's own, or those of all others if NAME has none.",
    "disable": "Close it until `enable`.",
    "enable": "Take back what `disable` did, as `resume` does.",
}


@click.group(cls=StoreGroup)
def switch() -> None:
    """Close tools, the calls of a principal or everything, in every process that shares STORE, within a second.

    The registry is not known here: a name that no tool has closes nothing, and the processes warn of it in their logs.
    A model reads that the tool is not available, and not why.

    \b
    Exit code: 0    done
               1    resume, enable: nothing was to be taken back, or another person's still stands
               2    STORE cannot be read, or the arguments are wrong: stderr says which
    """  # noqa: D301  # \b tells click to keep the line breaks


def _add(verb: str, text: str) -> None:
    needs: dict[str, Any] = {"required": True} if verb in ("pause", "disable") else {"default": ""}

    @click.argument("tool", required=False)
    @click.option("--principal", metavar="NAME", help="Not a tool, but the calls of this principal.")
    @click.option("--all", "everything", is_flag=True, help="Not a tool, but everything.")
    @by_option
    @click.option("--why", metavar="TEXT", help="Why, for the record.", **needs)
    @secret_file_option
    @json_option
    @pass_store
    def run(store: str, /, tool: str | None, principal: str | None, everything: bool, **options: Any) -> None:  # noqa: FBT001  # click passes it by name
        if [tool is not None, principal is not None, everything].count(True) != 1:
            raise UsageError("name one of TOOL, --principal NAME and --all")
        what = {"tool": tool, "principal": principal, "everything": everything}
        from .store_commands import switch_tool

        run_command(switch_tool, store, verb, what, **options)

    if verb == "pause":
        again = click.option(
            "--retry-after", metavar="SECONDS", type=click.FloatRange(0), help="When callers should try again."
        )
        run = again(run)
    switch.command(verb, help=text)(run)


for _verb, _text in _VERBS.items():
    _add(_verb, _text)


@switch.command("list")
@json_option
@pass_store
def list_(store: str, /, **options: Any) -> None:
    """List what is closed, by whom and why."""
    from .store_commands import list_switches

    run_command(list_switches, store, **options)
