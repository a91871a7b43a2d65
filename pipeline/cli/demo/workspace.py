"""The demo's tools: real ones, over a few real files, with backends that fail the way backends do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import anyio

from ...tools.decorator import ToolFailed
from ...tools.registry import ToolRegistry

PLANTED = "sk-demo-7f3a91c2e5"  # a key in an exception's text: it may reach the developer's log and nothing else
PRICES = {"Aurora lamp": "54.00", "Borealis lamp": "79.00"}
BUSY_ONCE = "Borealis lamp"  # the article whose first request finds the supplier busy
FILES = {
    "catalogue.md": "# Catalogue\nAurora lamp: 49.00\nBorealis lamp: 79.00\n",
    "addresses.csv": "name,mail\nAda,ada@example.org\n",
}


@dataclass
class Query:
    """What to look for."""

    text: str
    ignore_case: bool = True


class ServiceBusyError(Exception):
    """What an HTTP client raises for a 503."""

    response = SimpleNamespace(status_code=503, headers={})


def tools_over(root: Path) -> ToolRegistry:
    """Write the files, and give the tools that work on them. One of the tools is switched off."""
    for name, text in FILES.items():
        (root / name).write_text(text, encoding="utf-8")
    tools = ToolRegistry()
    _add_thinking(tools)
    _add_files(tools, root)
    _add_backends(tools)
    _add_mail(tools)
    tools.disable("delete_file")
    return tools


def _add_thinking(tools: ToolRegistry) -> None:
    @tools.tool(name="sequential-thinking__sequentialthinking", effect="read")
    async def think(thought: str, next_thought_needed: bool) -> str:  # noqa: FBT001
        """Write down one thought; named as a gateway names a server's tool."""
        return f"Noted: {thought}" + (" Go on." if next_thought_needed else "")


def _add_files(tools: ToolRegistry, root: Path) -> None:
    def inside(path: str) -> Path:
        file = root / Path(path).name  # whatever is asked for, it is one of ours
        if not file.is_file():
            raise ToolFailed(f"There is no file {path}.", kind="not_found", suggestion="list_files shows them all.")
        return file

    @tools.tool(effect="read")
    def list_files(pattern: str = "*") -> list[str]:
        """List the files whose names match a pattern."""
        return sorted(file.name for file in root.glob(pattern))

    @tools.tool(effect="read")
    def search_files(query: Query) -> list[str]:
        """Find the lines that hold a text."""

        def folded(text: str) -> str:
            return text.casefold() if query.ignore_case else text

        return [
            f"{file.name}:{number}: {line}"
            for file in sorted(root.iterdir())
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
            if folded(query.text) in folded(line)
        ]

    @tools.tool(effect="read")
    async def read_file(path: str, start_line: int = 1) -> str:
        """Read a text file.

        Args:
            path: the file's name, as list_files gives it
            start_line: the first line wanted, from 1
        """
        lines = await anyio.Path(inside(path)).read_text(encoding="utf-8")
        return "".join(lines.splitlines(keepends=True)[start_line - 1 :])

    @tools.tool(effect="idempotent")
    async def write_file(path: str, text: str) -> str:
        """Replace what is in a file."""
        return f"{await anyio.Path(inside(path)).write_text(text, encoding='utf-8')} characters written to {path}"

    @tools.tool(effect="idempotent")
    def delete_file(path: str) -> None:
        """Delete a file."""
        inside(path).unlink()


def _add_backends(tools: ToolRegistry) -> None:
    asked: list[str] = []

    @tools.tool(effect="read")
    async def fetch_quote(article: str, currency: str = "EUR") -> dict[str, str]:
        """Ask the supplier for today's price."""
        asked.append(article)
        if asked.count(BUSY_ONCE) == 1 and article == BUSY_ONCE:
            raise ServiceBusyError
        return {"article": article, "price": PRICES[article], "currency": currency}

    @tools.tool(effect="read")
    async def search_archive(text: str) -> list[str]:
        """Search the catalogues of earlier years, for longer than anybody waits."""
        await anyio.sleep(60)
        return [text]

    @tools.tool(effect="read")
    async def find_address(name: str) -> str:
        """Look up a mail address in the directory."""
        raise RuntimeError(f"ldaps://directory.internal refused the bind for {name} with key {PLANTED}")


def _add_mail(tools: ToolRegistry) -> None:
    sent: list[str] = []

    @tools.tool(effect="mutating", verify_with="list_sent_mail")
    async def send_mail(to: str, subject: str, body: str) -> str:
        """Send a mail. The server takes it, and then the line drops before it has said so."""
        sent.append(f"to {to}: {subject} ({len(body)} characters)")
        raise ConnectionResetError("connection reset by peer")

    @tools.tool(effect="read")
    async def list_sent_mail() -> list[str]:
        """List what was sent."""
        return sent
