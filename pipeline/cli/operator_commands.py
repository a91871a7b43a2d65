"""``toolcall approvals``, ``ledger`` and ``audit``, and what every group has: the store comes first, then the verb."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .command_errors import UsageError, run_command

_STORES = "STORE is the path of an SQLite file, redis://… or postgresql://…. It is never made."
pass_store = click.pass_obj
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_id = click.argument("part", metavar="ID")
by_option = click.option("--by", default="", metavar="NAME", help="Who decides.  [default: the user of this system]")

secret_file_option = click.option(
    "--secret-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Holds the secret of the stage Audit.",
)


class StoreGroup(click.Group):
    """A group whose commands get the text of STORE, which stands in front of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"subcommand_metavar": "VERB [ARGS]...", **kwargs})
        self.params.append(click.Argument(["store"], metavar="STORE"))
        self.epilog = _STORES

    def invoke(self, ctx: click.Context) -> Any:
        """Hand STORE on."""
        ctx.obj = ctx.params.pop("store")
        return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, and say what is meant where it stands in the place of STORE."""
        store, verb = ctx.params.get("store", ctx.obj), args[0]
        if verb in ctx.help_option_names:
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()
        if verb not in self.commands:
            if store in self.commands:
                raise UsageError(f"the store comes first: {ctx.command_path} {' '.join([verb, store, *args[1:]])}")
            if (named := verb.lstrip("-")) in self.commands:
                raise UsageError(f"the verb has no dashes: {ctx.command_path} {store} {named}")
            raise UsageError(f"{ctx.command_path} STORE has {', '.join(self.commands)}, and no {verb!r}")
        return super().resolve_command(ctx, args)


@click.group(cls=StoreGroup)
def approvals() -> None:
    """List the calls that wait for a person's decision, and decide; give standing grants.

    ID may be the beginning of an id, if no other begins so.

    \b
    Exit code: 0    done
               1    approve, reject: it was decided, or had expired, before; or NAME asked for it, and may not decide
               2    STORE cannot be read, ID is unknown, or the arguments do not fit: stderr says which
    """  # noqa: D301  # \b tells click to keep the line breaks


@approvals.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that are decided or expired.")
@json_option
@pass_store
def list_(store: str, /, **options: Any) -> None:
    """List the calls that wait. Declared secrets are masked."""
    from .store_commands import list_approvals

    run_command(list_approvals, store, **options)


@approvals.command()
@_id
@json_option
@pass_store
def show(store: str, /, **options: Any) -> None:
    """Show one call, with the arguments as they will run."""
    from .store_commands import show_approval

    run_command(show_approval, store, **options)


@approvals.command()
@_id
@by_option
@click.option("--arguments", metavar="JSON", help="Run it with these arguments instead.")
@click.option("--message", default="", help="Words for the record.")
@json_option
@pass_store
def approve(store: str, /, **options: Any) -> None:
    """Let a call run."""
    from .store_commands import decide

    run_command(decide, store, approve=True, **options)


@approvals.command()
@_id
@by_option
@click.option("--message", default="", help="Words for the model.")
@json_option
@pass_store
def reject(store: str, /, **options: Any) -> None:
    """Refuse a call."""
    from .store_commands import decide

    run_command(decide, store, approve=False, arguments=None, **options)


@approvals.command()
@click.argument("tool")
@by_option
@click.option("--principal", metavar="NAME", help="Whose calls.  [default: those of every caller]")
@click.option("--conversation", metavar="ID", help="Where.  [default: everywhere]")
@click.option("--until", metavar="TIME", help="When it ends, such as 2026-12-31T18:00Z.  [default: when it is revoked]")
@json_option
@pass_store
def grant(store: str, /, **options: Any) -> None:
    """Let all calls of TOOL run, a name or a pattern, without a decision on each."""
    from .store_commands import give_grant

    run_command(give_grant, store, **options)


@approvals.command()
@json_option
@pass_store
def grants(store: str, /, **options: Any) -> None:
    """List the standing grants that hold."""
    from .store_commands import list_grants

    run_command(list_grants, store, **options)


@approvals.command()
@_id
@json_option
@pass_store
def revoke(store: str, /, **options: Any) -> None:
    """End a standing grant."""
    from .store_commands import revoke_grant

    run_command(revoke_grant, store, **options)


@click.group(cls=StoreGroup)
def ledger() -> None:
    """Decide what became of calls that may have taken effect.

    ID may be the beginning of the id of an undecided call, if no other begins so.

    \b
    Exit code: 0    list: no call is undecided. show, resolve: done
               1    list: some are. show: nothing is kept. resolve: it was decided before, still runs, or is not known
               2    STORE cannot be read, several ids begin so, or --value is not JSON: stderr says which
    """  # noqa: D301  # as above


@ledger.command("list")
@json_option
@pass_store
def list_calls(store: str, /, **options: Any) -> None:
    """Print the calls that may have taken effect."""
    from .store_commands import list_undecided

    run_command(list_undecided, store, **options)


@ledger.command("show")
@_id
@click.option("--json", is_flag=True, expose_value=False, help="It is JSON in any case.")
@pass_store
def show_call(store: str, /, **options: Any) -> None:
    """Print what is kept of one call, as JSON. Arguments are never kept."""
    from .store_commands import show_delivery

    run_command(show_delivery, store, **options)


@ledger.command("resolve")
@_id
@click.argument("landed", type=click.Choice(["landed", "not-landed"]))
@click.option("--value", metavar="JSON", help="What the call returned.  [default: null]")
@click.option("--by", default="", help="Who says so.")
@json_option
@pass_store
def resolve_call(store: str, /, landed: str, **options: Any) -> None:
    """Say whether a call took effect. If it did not, it may run when it comes again."""
    from .store_commands import resolve_call as resolve

    run_command(resolve, store, landed=landed == "landed", **options)


@click.group(cls=StoreGroup)
def audit() -> None:
    """Print the rows of an audit, or verify that they are whole.

    \b
    Exit code: 0    list: printed. verify: the rows are whole
               1    verify: a row was changed, removed or inserted, or there is none
               2    STORE or FILE cannot be read: stderr says which
    """  # noqa: D301  # as above


@audit.command("list")
@secret_file_option
@click.option("--json", is_flag=True, expose_value=False, help="They are JSON in any case.")
@pass_store
def list_rows(store: str, /, **options: Any) -> None:
    """Print all rows, oldest first, one JSON object a line."""
    from .store_commands import print_audit

    run_command(print_audit, store, **options)


@audit.command()
@click.option("--expect", default="", metavar="NUMBER:DIGEST", help="A row that the chain must hold, noted elsewhere.")
@secret_file_option
@json_option
@pass_store
def verify(store: str, /, **options: Any) -> None:
    """Say whether a row was changed, removed or inserted."""
    from .store_commands import verify_audit

    run_command(verify_audit, store, **options)
