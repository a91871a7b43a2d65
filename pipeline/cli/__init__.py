"""The command ``toolcall``. To import it loads neither click nor rich nor the OpenTelemetry SDK."""

import errno
import os
import sys
from io import TextIOWrapper
from typing import TextIO, cast

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_EXTRAS = ("click", "opentelemetry", "rich")  # opentelemetry: its SDK and exporter; the API is always installed


def main() -> None:
    """Run the command. Exits with one line if a package is not installed, or if standard output takes no more."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # its encoding may lack a character of a text, such as ASCII
            stream.reconfigure(errors="backslashreplace")
    try:
        from .commands import toolcall

        try:
            toolcall(prog_name="toolcall")
        finally:
            if (stdout := cast("TextIO | None", sys.stdout)) is not None:  # else Python fails where it flushes at exit
                stdout.flush()
    except OSError as exc:
        if exc.errno not in _FULL or exc.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the flush at exit
        print(f"toolcall: standard output cannot be written: {exc.strerror}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in _EXTRAS:
            raise
        sys.exit(f"toolcall needs {exc.name}, which is not installed: pip install 'toolcall-pipeline[cli,otel]'")
