"""No caller depends on another: whoever is cancelled, whenever, the others get their answers and nothing is lost."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from cancelled_groups import GROUPS, TRIALS, Hesitant, run_groups
from toolcall_pipeline.stores import SQLite

SEED = int(os.environ.get("TOOLCALL_SEED", "7"))


@pytest.mark.parametrize("name", TRIALS)
async def test_in_the_memory_of_a_stage(name: str) -> None:
    """Without a store."""
    await run_groups(name, None, range(GROUPS), SEED, threads=False)


@pytest.mark.parametrize("name", TRIALS)
async def test_in_a_store_that_lets_others_run(name: str) -> None:
    """With a store in memory in which each step takes some turns of the event loop."""
    await run_groups(name, Hesitant(random.Random(SEED)), range(GROUPS), SEED, threads=False)


@pytest.mark.parametrize("name", TRIALS)
async def test_in_a_file(tmp_path: Path, name: str) -> None:
    """With a store in a file, which answers from a thread."""
    async with SQLite(tmp_path / "a.db") as store:
        await run_groups(name, store, range(GROUPS), SEED, threads=True)
