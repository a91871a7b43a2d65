"""Options that several commands have. This imports click alone, for ``toolcall --help`` loads it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click


class Asked(NamedTuple):
    """The options of `asker_options`, as they were typed; `Asker.load` reads them."""

    deps: str | None
    principal: str
    conversation: str


def asker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--deps``, ``--principal`` and ``--conversation`` to a command, which gets them as ``asked``."""

    @click.option(
        "--deps",
        metavar="MODULE:FACTORY",
        help="The deps of the calls: what this function returns. It may be async, or an async context manager.",
    )
    @click.option("--principal", metavar="NAME", default="", help="Who asks, in the calls that do not say it.")
    @click.option("--conversation", metavar="ID", default="", help="The conversation of the calls that name none.")
    @wraps(command)
    def run(*args: Any, deps: str | None, principal: str, conversation: str, **kwargs: Any) -> None:
        command(*args, asked=Asked(deps, principal, conversation), **kwargs)

    return run


class Worded(NamedTuple):
    """The options of `wording_options`, as they were typed; None: not at all."""

    profile: str | None = None
    verbosity: str | None = None


AS_IT_IS = Worded()


def wording_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--profile`` and ``--verbosity`` to a command, which gets them as ``worded``."""

    @click.option("--profile", metavar="NAME", help="Word the texts for the model so.  [default: as the pipeline does]")
    @click.option(
        "--verbosity",
        type=click.Choice(["terse", "normal", "full"]),
        help="How much these texts say.  [default: as the pipeline does]",
    )
    @wraps(command)
    def run(*args: Any, profile: str | None, verbosity: str | None, **kwargs: Any) -> None:
        command(*args, worded=Worded(profile, verbosity), **kwargs)

    return run


store_option = click.option(
    "--store",
    metavar="STORE",
    help="Keep in this store which calls began, how they ended, and which wait for `toolcall approvals`: the path of "
    "an SQLite file, redis://… or postgresql://….",
)
journal_option = click.option(
    "--journal",
    metavar="PATH",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep a report of each call in this file, for `toolcall report`, `explain` and `replay`.",
)
