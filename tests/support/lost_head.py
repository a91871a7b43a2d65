"""``python lost_head.py FOLDER COUNT``: makes deliveries on a cluster of its own, and kills its head in the middle."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else Ray listens beyond the loopback interface

import anyio
import anyio.to_thread

from far_shop import list_far_deliveries, make_far_shop, work_all
from ledger_kills import Answers
from toolcall_pipeline.executors import Ray
from toolcall_pipeline.stores import SQLite

HEAD = ("gcs_server", "raylet")


def find_head() -> list[int]:
    """The processes of the head, which this one has started."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() in HEAD]


def read_pids(file: Path) -> list[int]:
    """The processes of the effects so far."""
    return [int(line.split()[3]) for line in file.read_text().splitlines()]


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


async def main(folder: Path, count: int) -> None:
    """Kill the head after a third of the effects. What is called then is lost, or this process ends with the head."""
    ray: Any = import_module("ray")
    env = {"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}}
    where: Any = {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "log_to_driver": False}
    ray.init(**where, num_cpus=2, logging_level="ERROR", runtime_env=env)
    head, file, answers = find_head(), folder / "effects", Answers(list)
    assert len(head) == len(HEAD), head
    async with (
        Ray(workers=2) as executor,
        make_far_shop(SQLite(folder / "ledger.db"), executor) as pipeline,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(work_all, pipeline, list_far_deliveries(count, file), answers)
        while len(pids := read_pids(file)) < count // 3:  # noqa: ASYNC110  # written by actors
            await anyio.sleep(0.005)
        for pid in head:
            os.kill(pid, signal.SIGKILL)
            await anyio.to_thread.run_sync(os.waitpid, pid, 0)  # else its children take it for alive
        while any(map(is_alive, set(pids))):  # noqa: ASYNC110  # no child of ours
            await anyio.sleep(0.005)
        with anyio.move_on_after(1):  # what waits for them hears of it now
            await anyio.sleep_forever()
        rows = [json.dumps([id_, *each]) for id_, found in answers.items() for each in found]
        (folder / "answers").write_text("\n".join(rows))
        os._exit(0)  # as a person ends it: it waits for the head, which does not come back


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
