"""The tools whose calls the tests of the journal record, and a changed form of their pipeline."""

from __future__ import annotations

from typing import Annotated

from toolcall_pipeline import Secret, ToolFailed, ToolRegistry
from toolcall_pipeline.middlewares import Validate, standard

tools = ToolRegistry()
ran: list[str] = []


@tools.tool(effect="read")
async def add(x: int, y: int) -> int:
    """Add two numbers."""
    ran.append("add")
    return x + y


@tools.tool
async def pay(amount: int, token: Annotated[str, Secret()]) -> str:
    """Pay."""
    ran.append("pay")
    return f"paid {amount} with {token}"


@tools.tool(effect="read")
async def find(name: str) -> str:
    """Find a thing."""
    ran.append("find")
    if name == "none":
        raise ToolFailed("There is no such thing.", kind="not_found", suggestion="Look for another one.")
    return f"found {name}"


@tools.tool(effect="read")
async def flaky(times: int) -> str:
    """Fail some times."""
    ran.append("flaky")
    if ran.count("flaky") <= times:
        raise ConnectionError("away")
    return "there"


same = standard(tools)
strict = standard(tools).replace("validate", Validate(repair=()))
broken = 5
