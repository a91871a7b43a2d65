"""The tool that the four programs of DEPLOYMENT share: one that changes something, and notes when it begins."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from toolcall_pipeline import ToolRegistry
from toolcall_pipeline.stores import Postgres, Redis, SQLite, Store

FOLDER = Path(os.environ["SHOP_FOLDER"])
tools = ToolRegistry()


def open_store() -> Store:
    """The store that the environment names."""
    address = os.environ["SHOP_STORE"]
    if address.startswith("redis"):
        return Redis(address)
    return Postgres(address) if address.startswith("postgres") else SQLite(address)


@tools.tool
def pay(order: str) -> str:
    """Pay an order.

    Args:
        order: Its number. One that begins with "stuck" never ends when it is paid for the first time.
    """
    notes = FOLDER / f"{order}.begun"
    with notes.open("a") as file:  # the effect: one line for each time that the body began, with its process
        file.write(f"{os.getpid()}\n")
        file.flush()
        os.fsync(file.fileno())
    if order.startswith("stuck") and len(notes.read_text().splitlines()) == 1:
        while True:
            signal.sigwait({signal.SIGUSR2})  # which nobody sends: the process is killed here
    return f"paid {order}"
