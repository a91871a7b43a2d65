"""Failed reads of a file: the text says which of the possible mistakes it was.

That is the root cause in document 002: after "File not found: undefined" a model wrote the file anew, because the text
said neither that the *parameter* was missing nor that the file exists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from toolcall_pipeline import Pipeline, ToolFailed, ToolRegistry
from toolcall_pipeline.messages import render
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.privacy import approved

FILES: dict[str, str | Exception] = {
    "a.txt": "hello",
    "secret.txt": PermissionError(13, "Permission denied", "/srv/files/secret.txt"),
    "broken.txt": RuntimeError("disk /dev/sda1: password=hunter2"),
}


def reader() -> Pipeline:
    """A pipeline with one tool, which reads files."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def read(path: str, start_line: int = 1) -> str:  # as models know it
        """Read a text file.

        Args:
            path: File path, relative to the project root
            start_line: The first line
        """
        if not path.strip():
            raise ToolFailed("File path cannot be only whitespace", kind="validation", parameter="path")
        held = FILES.get(path, FileNotFoundError(2, "No such file or directory", f"/srv/files/{path}"))
        if isinstance(held, FileNotFoundError) and path.startswith("known/"):
            raise ToolFailed(
                approved(f"File not found: {path}"),
                kind="not_found",
                parameter="path",
                suggestion="Use ls or tree to find available files",
            )
        if isinstance(held, Exception):
            raise held
        return held

    return standard(tools)


MISSING = (
    "Error: Missing required parameter: path\n"
    "Fix the errors and try again, with arguments of this form: "
    '{"path": <string: File path, relative to the project root>, "start_line": <optional integer: The first line>}'
)
READS: dict[str, tuple[Any, str]] = {
    "no parameter": ({}, MISSING),
    "no arguments": (None, MISSING),
    "empty arguments": ("", MISSING),
    "undefined": ({"path": None}, MISSING),
    "another type": ({"path": ["a.txt"]}, "Error: Invalid parameter value for path: must be a string, not an array"),
    "only blanks": ({"path": "  "}, "Error: Invalid parameter value for path: File path cannot be only whitespace"),
    "no such file": ({"path": "b.txt"}, "Error: Not found."),
    "no such file, in the author's words": (
        {"path": "known/b.txt"},
        "Error: File not found: known/b.txt. Use ls or tree to find available files",
    ),
    "no permission": ({"path": "secret.txt"}, "Error: Permission denied."),
    "a bug": ({"path": "broken.txt"}, "An unexpected error occurred while executing this tool"),
    "success": ({"path": "a.txt"}, "hello"),
}


@pytest.mark.parametrize(("arguments", "text"), [pytest.param(*row, id=name) for name, row in READS.items()])
async def test_a_failed_read_says_what_failed(arguments: Mapping[str, Any] | str | None, text: str) -> None:
    """A missing parameter, a missing file and a refused permission have different texts, and none says "undefined"."""
    told = render(await reader().call("read", arguments))
    assert told == text
    assert "undefined" not in told
    assert "/srv" not in told


WAYS_TO_FAIL: tuple[dict[str, str], ...] = ({}, {"path": "b.txt"}, {"path": "secret.txt"}, {"path": "broken.txt"})


@pytest.mark.parametrize("profile", ["default", "rfc015", "structured", "agentopia", "invalid_tool", "llmproc"])
async def test_each_profile_tells_them_apart(profile: str) -> None:
    """Four ways to fail have four texts in every profile, and each its ``errorType`` in JSON."""
    told = [render(await reader().call("read", arguments), profile=profile, tool="read") for arguments in WAYS_TO_FAIL]
    assert len(set(told)) == 4
    if profile == "structured":
        types = [json.loads(text)["errorType"] for text in told]
        assert types == ["validation", "not_found", "permission", "execution"]
