"""The demo's script, and its tools: they work on real files, and their backends fail as real ones do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import anyio

from ...tools.failure import ToolFailed
from ...tools.registry import ToolRegistry

PLANTED_KEY = "sk-demo-7f3a91c2e5"  # in an exception's message: it may reach the developer's log and nothing else
PRICES = {"Aurora lamp": "54.00", "Borealis lamp": "79.00"}
BUSY_ONCE = "Borealis lamp"  # the first request for this article fails
FILES = {
    "catalogue.md": "# Catalogue\nAurora lamp: 49.00\nBorealis lamp: 79.00\n",
    "addresses.csv": "name,mail\nAda,ada@example.org\n",
}
QUESTION = "Is the price of the Aurora lamp in our catalogue still right? If not, correct it and tell Ada."
ANSWER = "It said 49.00 and is 54.00 today. I have corrected it, and one mail about it is on its way to Ada."
NO_MISTAKE = "nothing wrong"
CORRECTED = "corrected after the answer"


@dataclass
class Query:
    """What to look for."""

    text: str
    ignore_case: bool = True


class ServiceBusyError(Exception):
    """As an HTTP client raises it for status 503."""

    response = SimpleNamespace(status_code=503, headers={})


def build_tools(root: Path) -> ToolRegistry:
    """Write the files into the folder, and return the tools that work on them. One of the tools is switched off."""
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
        """Write down one thought. The name is one that a gateway gives to a server's tool."""
        return f"Noted: {thought}" + (" Go on." if next_thought_needed else "")


def _add_files(tools: ToolRegistry, root: Path) -> None:
    def find_file(path: str) -> Path:
        file = root / Path(path).name  # never a file outside of the folder
        if not file.is_file():
            raise ToolFailed(f"There is no file {path}.", kind="not_found", suggestion="list_files shows them all.")
        return file

    @tools.tool(effect="read")
    def list_files(pattern: str = "*") -> list[str]:
        """List the files whose names match a pattern."""
        return sorted(file.name for file in root.glob(pattern))

    @tools.tool(effect="read")
    def search_files(query: Query) -> list[str]:
        """Find the lines that contain a text."""

        def fold_case(text: str) -> str:
            return text.casefold() if query.ignore_case else text

        return [
            f"{file.name}:{number}: {line}"
            for file in sorted(root.iterdir())
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
            if fold_case(query.text) in fold_case(line)
        ]

    @tools.tool(effect="read")
    async def read_file(path: str, start_line: int = 1) -> str:
        """Read a text file.

        Args:
            path: the file's name, as list_files gives it
            start_line: the first line to read, from 1
        """
        lines = await anyio.Path(find_file(path)).read_text(encoding="utf-8")
        return "".join(lines.splitlines(keepends=True)[start_line - 1 :])

    @tools.tool(effect="idempotent")
    async def write_file(path: str, text: str) -> str:
        """Replace the content of a file."""
        return f"{await anyio.Path(find_file(path)).write_text(text, encoding='utf-8')} characters written to {path}"

    @tools.tool(effect="idempotent")
    def delete_file(path: str) -> None:
        """Delete a file."""
        find_file(path).unlink()


def _add_backends(tools: ToolRegistry) -> None:
    requests: list[str] = []

    @tools.tool(effect="read")
    async def fetch_quote(article: str, currency: str = "EUR") -> dict[str, str]:
        """Ask the supplier for today's price."""
        requests.append(article)
        if requests.count(BUSY_ONCE) == 1 and article == BUSY_ONCE:
            raise ServiceBusyError
        return {"article": article, "price": PRICES[article], "currency": currency}

    @tools.tool(effect="read", timeout=0.3)  # it is tried three times
    async def search_archive(text: str) -> list[str]:
        """Search the catalogues of earlier years. Takes longer than anybody waits."""
        await anyio.sleep(60)
        return [text]

    @tools.tool(effect="read")
    async def find_address(name: str) -> str:
        """Look up a mail address in the directory."""
        raise RuntimeError(f"ldaps://directory.internal refused the bind for {name} with key {PLANTED_KEY}")


def _add_mail(tools: ToolRegistry) -> None:
    sent: list[str] = []

    @tools.tool(effect="mutating", verify_with="list_sent_mail")
    async def send_mail(to: str, subject: str, body: str) -> str:
        """Send a mail. The server accepts it, and the connection breaks before the reply."""
        sent.append(f"to {to}: {subject} ({len(body)} characters)")
        raise ConnectionResetError("connection reset by peer")

    @tools.tool(effect="read")
    async def list_sent_mail() -> list[str]:
        """List the mails that were sent."""
        return sent


class ScriptedCall(NamedTuple):
    """One call, as the model writes it."""

    name: str
    arguments: dict[str, object] | str  # a string: all arguments as JSON text
    mistake: str = NO_MISTAKE  # of the model, or what goes wrong behind a correct call
    kind: str = "success"  # the expected outcome: success, or the kind of the error
    runs: int = 1  # expected runs of the tool; 0: it is never run


_THOUGHT: dict[str, object] = {
    "thought": "Find the price, ask for today's, correct the file, write to Ada.",
    "next_thought_needed": True,
}
SCRIPT = (
    ScriptedCall("sequential-thinking", _THOUGHT, "the server's name, not the tool's", "unknown_tool", 0),
    ScriptedCall("sequential-thinking__sequentialthinking", _THOUGHT, CORRECTED),
    ScriptedCall("list_file", {}, "a typo in the name", "unknown_tool", 0),
    ScriptedCall("list_files", '{"pattern": "*"}', "all arguments as JSON text"),
    ScriptedCall("search_files", {"query": '{"text": "aurora"}'}, "JSON text instead of an object"),
    ScriptedCall("read_file", {}, "a required parameter is missing", "validation", 0),
    ScriptedCall("read_file<|channel|>commentary", {"path": "catalogue.md"}, "a control token in the name"),
    ScriptedCall("fetch_quote", {"article": "Aurora lamp", "currency": None}, "null for an optional parameter"),
    ScriptedCall(
        "fetch_quote",
        {"artikel": "Borealis lamp", "currency": ["EUR"]},
        "a wrong name and a wrong type",
        "validation",
        0,
    ),
    ScriptedCall("fetch_quote", {"article": "Borealis lamp"}, "the backend answers 503, once", runs=2),
    ScriptedCall("search_archive", {"text": "Aurora"}, "the tool hangs", "timeout", 3),
    ScriptedCall("delete_file", {"path": "catalogue.md"}, "the tool is switched off", "unavailable", 0),
    ScriptedCall(
        "write_file", '{"path": "catalogue.md", "text": "# Catalogue\\nAuro', "cut off midway", "malformed_call", 0
    ),
    ScriptedCall(
        "write_file",
        {"path": "catalogue.md", "text": "# Catalogue\nAurora lamp: 54.00\nBorealis lamp: 79.00\n"},
        CORRECTED,
    ),
    ScriptedCall("find_address", {"name": "Ada"}, "the tool crashes, with a key in the message", "internal"),
    ScriptedCall("read_file", {"path": "addresses.csv", "start_line": 2}),
    ScriptedCall(
        "send_mail",
        {"to": "ada@example.org", "subject": "Aurora lamp", "body": "It is 54.00 from today."},
        "the connection breaks after sending",
        "outcome_unknown",
    ),
    ScriptedCall("list_sent_mail", "", "nothing wrong: checks, does not send again"),
)
