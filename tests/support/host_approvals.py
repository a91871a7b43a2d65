"""A bank whose approvals and ledger outlive its process, for the frameworks that ask a person on their own pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from toolcall_pipeline import Approvals, Pipeline, ToolRegistry
from toolcall_pipeline.approvals import Approval
from toolcall_pipeline.middlewares import Approve, standard
from toolcall_pipeline.stores import SQLite


class Bank:
    """Pays, if a person has approved it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "bank.db"
        self.paid: list[str] = []
        self.version = "1"  # of its policy

    @asynccontextmanager
    async def start(self) -> AsyncGenerator[tuple[ToolRegistry, Pipeline]]:
        """A process of its own: another registry, pipeline and connection over the same file."""
        tools, store = ToolRegistry(), SQLite(self._path)

        @tools.tool
        async def pay(to: str, cents: int) -> str:
            """Pay money."""
            self.paid.append(f"{to} {cents}")
            return f"paid {to} {cents}"

        pipeline = standard(tools, store=store).before("ledger", Approve(store, tools=["pay"], version=self.version))
        async with pipeline:
            yield tools, pipeline

    async def list(self) -> list[Approval]:
        """All approvals."""
        async with Approvals(SQLite(self._path)) as approvals:
            return await approvals.list()
