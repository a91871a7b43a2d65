"""What must hold for every store that several processes share; each takes the kind and the address of a store."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from store_worker import MAKE
from support import PATIENT
from toolcall_pipeline.stores import Change

WORKER = str(Path(__file__).with_name("store_worker.py"))


def start(kind: str, address: str, program: str, number: int = 0) -> subprocess.Popen[str]:
    """Start a process that uses the store."""
    return subprocess.Popen(
        [sys.executable, WORKER, kind, address, program, str(number)], stdout=subprocess.PIPE, text=True
    )


async def contend(kind: str, address: str, *, processes: int = 4, times: int = 50) -> None:
    """Processes that change two keys at once, by what they read, lose nothing and do nothing twice."""
    running = [start(kind, address, "add", times) for _ in range(processes)]
    assert [each.communicate(timeout=PATIENT) and each.returncode for each in running] == [0] * processes
    async with MAKE[kind](address) as store:
        left, right = await store.get("left"), await store.get("right")
        assert left == right
        assert left is not None
        assert int(left.value) == processes * times


async def kill(kind: str, address: str, *, kills: int) -> None:
    """A process that is killed while it writes leaves both keys of a write or none, and all that was confirmed."""
    dice = random.Random(7)
    confirmed = 0
    for _ in range(kills):
        with start(kind, address, "forever") as child:
            assert child.stdout is not None
            for _ in range(dice.randrange(1, 40)):
                confirmed = int(child.stdout.readline())
            child.kill()
            rest = child.stdout.read().split("\n")[:-1]  # the last line may be cut
            confirmed = int(rest[-1]) if rest else confirmed
        async with MAKE[kind](address) as store:
            left, right = await store.get("left"), await store.get("right")
            assert left == right
            assert left is not None
            assert confirmed <= int(left.value) <= confirmed + 1
            assert await store.write(Change("other", b"1")) is not None
