"""How the errors of a command are printed. This imports click alone, for ``toolcall --help`` loads it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NoReturn

import click


class UsageError(click.ClickException):
    """Printed as one line, without click's usage text; the exit code is 2."""

    exit_code = 2


@contextmanager
def print_command_errors() -> Generator[None]:
    """Print a CommandError of the block, and end the command."""
    from ..privacy import neutralise
    from .terminal_text import CommandError

    try:
        yield
    except CommandError as exc:  # it may quote a module, a schema or an exception
        raise UsageError(neutralise(str(exc))) from None


def run_command(
    command: Callable[..., int], /, *args: Any, asked: tuple[str | None, str, str] | None = None, **options: Any
) -> NoReturn:
    """Exit with the code that the function of a command returns; ``asked`` is what its `Asker` is loaded of."""
    with print_command_errors():
        if asked is not None:
            from .asker import Asker

            options["asker"] = Asker.load(*asked)
        code = command(*args, **options)
    sys.exit(code)
