"""Opens a file so that no other run can write to it, and says who does."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ...privacy import neutralise
from ..terminal_text import CommandError, fit_on_one_line

_MODE = 0o600  # of a new file: it contains arguments and results
# The line of a lock in fdinfo, with the process that took it: "lock:  1: FLOCK  ADVISORY  WRITE 123 fe:00:21 0 EOF".
_FLOCK = re.compile(r"^lock:.*\bFLOCK\b\s+\S+\s+\S+\s+(\d+)\s", re.MULTILINE)
_MAX_COMMAND = 80  # characters


def open_exclusively(path: Path, flags: int, label: str) -> int:
    """Open a file to append to it, create it with mode 0600 if there is none, and keep other runs away from it.

    Only regular files are locked. The lock belongs to the open file and not to the process, so it stays when a tool
    opens and closes the same file. A process that a tool forks has the file open as well, and the lock with it.

    Raises:
        CommandError: The file cannot be opened, is locked, or was replaced at this moment.
    """
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_APPEND, _MODE)
    except OSError as exc:
        raise CommandError(f"{label}: {exc.strerror}") from None
    with closed_on_error(fd):
        if stat.S_ISREG(os.fstat(fd).st_mode):
            _lock(path, fd, label)
    return fd


@contextmanager
def closed_on_error(fd: int) -> Generator[None]:
    """Close the file descriptor if the block raises."""
    with ExitStack() as stack:
        stack.callback(os.close, fd)
        yield
        stack.pop_all()


def _is_named(path: Path, status: os.stat_result) -> bool:
    """Whether the path leads to the file of that status."""
    try:
        found = path.stat()
    except OSError:
        return False
    return os.path.samestat(found, status)


def _lock(path: Path, fd: int, label: str) -> None:
    try:
        import fcntl
    except ImportError:  # on Windows
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CommandError(f"{label}: {_explain_holder(fd)}") from None
    except OSError:  # a file system without locks
        return
    if not _is_named(path, os.fstat(fd)):  # another run, which has ended, removed it after it was opened here
        raise CommandError(f"{label}: it was replaced at this moment; run the command again")


def _explain_holder(fd: int) -> str:
    """The holder of the lock: a run, or a process that a tool has forked and that outlived its run."""
    holders = _find_holders(os.fstat(fd))
    if not holders:
        return "another run is writing to it, or a process that it started still has it open"
    for pid, locked_by in holders.items():
        if pid == locked_by:
            return f"another run is writing to it: {_describe_process(pid)}"
    named = " and ".join(map(_describe_process, holders))
    return f"the run that wrote to it has ended, but {named}, which it started, still has it open: end it first"


def _find_holders(status: os.stat_result) -> dict[int, int]:
    """Each process that holds the lock, with the process that took it. Only Linux shows it; elsewhere empty."""
    holders: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            for entry in (process / "fd").iterdir():
                if not os.path.samestat(entry.stat(), status):
                    continue
                found = _FLOCK.search((process / "fdinfo" / entry.name).read_text())
                if found is not None:
                    holders[int(process.name)] = int(found[1])
        except OSError:  # it has ended, has closed the file, or belongs to another user
            continue
    return holders


def _describe_process(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        command = ""
    text = neutralise(fit_on_one_line(command, _MAX_COMMAND))
    return f"process {pid} ({text})" if text else f"process {pid}"
