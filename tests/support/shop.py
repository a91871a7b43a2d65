"""A shop for runs of several processes over one store: each effect is one line of a file, appended with O_APPEND."""

from __future__ import annotations

import os
from pathlib import Path
from random import random
from typing import Any

import anyio

from toolcall_pipeline import Call, Pipeline, Success, ToolContext, ToolRegistry
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.stores import Store


def make_shop(store: Store | None, effects: Path, seconds: float = 0.03, *, verified: bool = False) -> Pipeline:
    """A pipeline over a store; None: without a ledger.

    Args:
        store: The store.
        effects: The file of effects: tool, call id and idempotency key in each line.
        seconds: How long a body takes at most, before its effect and after it.
        verified: Whether the backend can be asked what became of a call.
    """
    tools = ToolRegistry()
    file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def act(context: ToolContext, what: str) -> str:
        await anyio.sleep(random() * seconds)
        os.write(file, f"{context.tool} {context.call_id} {context.idempotency_key}\n".encode())
        await anyio.sleep(random() * seconds)
        return f"{what} for {context.call_id}"

    def look_up(call: Any, key: str) -> object:
        lines = [line.split() for line in effects.read_text().splitlines()]  # as a payment service finds it by its key
        found = next((line for line in lines if line[2] == key), None)
        return False if found is None else Success(f"paid {call.params['to']} {call.params['cents']} for {found[1]}")

    @tools.tool(context=True, verify_with="look", verify=look_up if verified else None)
    async def pay(context: ToolContext, to: str, cents: int) -> str:
        return await act(context, f"paid {to} {cents}")

    @tools.tool(effect="keyed", context=True)
    async def charge(context: ToolContext, to: str, cents: int) -> str:
        return await act(context, f"charged {to} {cents}")

    @tools.tool(effect="idempotent", context=True)
    async def put(context: ToolContext, name: str, value: int) -> str:
        return await act(context, f"put {name} {value}")

    @tools.tool(effect="read")
    async def look(name: str) -> str:
        return name

    return standard(tools, store=store)


def list_deliveries(count: int) -> list[Call]:
    """Calls: half of them mutating, a quarter keyed. A quarter of the intents is meant twice, by two honest calls."""
    made: list[Call] = []
    for n in range(count):
        tool, who = ("pay", "pay", "charge", "put")[n % 4], n % (count * 3 // 4)
        arguments: dict[str, object] = {"to": f"t{who}", "cents": who}
        if tool == "put":
            arguments = {"name": f"n{who}", "value": who}
        made.append(Call(tool, arguments, f"call_{n}", "ann", conversation="c"))
    return made


def open_store(spec: str) -> Store:
    """The store of a spec: ``sqlite:PATH``, ``redis:URL`` or ``postgres:DSN``."""
    from toolcall_pipeline import stores

    kind, _, where = spec.partition(":")
    made: Any = {"sqlite": "SQLite", "redis": "Redis", "postgres": "Postgres"}[kind]
    store: Store = getattr(stores, made)(where)
    return store
