"""How the errors of a command are printed. This imports click alone, for ``toolcall --help`` loads it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
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


def run_command(module: str, name: str, /, *args: Any, **options: Any) -> NoReturn:
    """Exit with the code that a function of this folder returns. Its module is loaded only now."""
    with print_command_errors():
        code = getattr(import_module(f".{module}", __package__), name)(*args, **options)
    sys.exit(code)
