"""``python -m killed_host FRAMEWORK FOLDER``: an agent with a store, which is killed in its first call.

It dies when the call has had its effect. It runs in the environment of its framework, and prints the text that the
model gets.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.hosts.mistakes import Mistake, Tools
from toolcall_pipeline.stores import SQLite

_CALL = Mistake("right", "add", '{"a": 1, "b": 2}', "3")
_PATIENT = 120  # seconds for a process that ends by itself


class Fatal(Tools):
    """Its process dies in the first call."""

    def __init__(self, effects: Path) -> None:
        super().__init__()
        self.effects = effects

    def add(self, a: int, b: int) -> int:
        """Add two integers, and write down that it was done."""
        is_first = not self.effects.exists()
        with self.effects.open("a") as written:
            written.write(f"{a} {b}\n")
        if is_first:
            os.kill(os.getpid(), signal.SIGKILL)
        return a + b


async def ask(framework: Any, folder: Path) -> str:
    """Let the model make its call, in the same conversation each time."""

    def find_conversation(_context: object) -> str:
        return "one"

    options: Any = {"store": SQLite(folder / "calls.db"), "conversation": find_conversation}
    return str(await framework.ask(_CALL, Fatal(folder / "effects"), behind=True, **options))


def kill_and_ask_again(framework: str, folder: Path) -> tuple[list[int], list[str], list[str]]:
    """Run the agent three times. Return the exit codes, the texts that the model got, and the effects."""
    here = Path(__file__).parent
    path = os.pathsep.join((str(here), str(here.parent.parent)))
    done = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "killed_host", framework, str(folder)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENT,
        )
        for _ in range(3)
    ]
    texts = [each.stdout.strip().splitlines()[-1] for each in done if each.stdout.strip()]
    return [each.returncode for each in done], texts, (folder / "effects").read_text().splitlines()


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(ask(import_module(f"benchmarks.hosts.in_{sys.argv[1]}"), Path(sys.argv[2]))))
