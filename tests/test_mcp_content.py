"""MCP: results of MCP tools, as dicts or as objects, are read as what they are."""

from __future__ import annotations

import json
from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import AnyUrl, BaseModel

from toolcall_pipeline import Call, Success, render
from toolcall_pipeline.adapters import anthropic, openai

PNG = b"\x89PNG\r\n\x1a\n"
PDF = b"%PDF-1.7"


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


class TextContent(BaseModel):
    type: str = "text"
    text: str
    annotations: Any = None


class ImageContent(BaseModel):
    type: str = "image"
    data: str
    mimeType: str  # noqa: N815  # the protocol's name


class BlobResourceContents(BaseModel):
    uri: AnyUrl
    mimeType: str | None = None  # noqa: N815  # as above
    blob: str


class EmbeddedResource(BaseModel):
    type: str = "resource"
    resource: BlobResourceContents


class CallToolResult(BaseModel):
    content: list[Any]
    structuredContent: dict[str, Any] | None = None  # noqa: N815  # as above
    isError: bool = False  # noqa: N815  # as above


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def image(data: bytes = PNG, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": encoded(data), "mimeType": media_type}


def resource(**fields: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "file:///docs/a.pdf", **fields}}


LINK = {"type": "resource_link", "uri": "file:///a.csv", "name": "a", "mimeType": "text/csv", "description": "Sales"}
READ: dict[str, tuple[object, str]] = {
    "text": ({"content": [text("a")], "isError": False}, "a"),
    "texts": ({"content": [text("a"), text("b")]}, "a\nb"),
    "object": (CallToolResult(content=[TextContent(text="a")]), "a"),
    "object of the newer package": (
        SimpleNamespace(content=[SimpleNamespace(type="text", text="a")], structured_content=None, is_error=False),
        "a",
    ),
    "text and structured": ({"content": [text('{"n": 1}')], "structuredContent": {"n": 1}}, '{"n": 1}'),
    "structured alone": ({"content": [], "structuredContent": {"n": 1}}, '{"n": 1}'),
    "structured and image": (
        {"content": [image()], "structuredContent": {"n": 1}},
        '(an image, image/png, 8 bytes)\n{"n": 1}',
    ),
    "error": ({"content": [text("no such branch")], "isError": True}, "Error: no such branch"),
    "error that says so": ({"content": [text("Error: no")], "isError": True}, "Error: no"),
    "error without text": (
        CallToolResult(content=[image()], isError=True),
        "Error: The tool failed.\n(an image, image/png, 8 bytes)",
    ),
    "nothing": (CallToolResult(content=[TextContent(text="")]), "(no output)"),
    "sound": (
        {"content": [{"type": "audio", "data": encoded(b"x"), "mimeType": "audio/wav"}]},
        "(audio, audio/wav, 1 bytes)",
    ),
    "text file": ({"content": [resource(text="a,b", mimeType="text/csv")]}, "a,b"),
    "text file as bytes": ({"content": [resource(blob=encoded(b"a,b"), mimeType="text/csv")]}, "a,b"),
    "file": (
        {"content": [resource(blob=encoded(PDF), mimeType="application/pdf")]},
        "(a file, a.pdf, application/pdf, 8 bytes)",
    ),
    "file without a type": ({"content": [resource(blob=encoded(PNG))]}, "(an image, image/png, 8 bytes)"),
    "link": ({"content": [LINK]}, "(a link: a, file:///a.csv, text/csv) Sales"),
    "wrong base64": (
        {"content": [{"type": "image", "data": "!", "mimeType": "image/png"}]},
        "(a file that cannot be read: its base64 is not valid, image/png)",
    ),
    "unknown block among others": ({"content": [text("a"), {"type": "video", "x": 1}]}, 'a\n{"type": "video", "x": 1}'),
    "list of blocks": (
        [TextContent(text="a"), ImageContent(data=encoded(PNG), mimeType="image/png")],
        "a\n(an image, image/png, 8 bytes)",
    ),
    "list of dicts": ([text("a"), text("b")], "a\nb"),
    "block alone": (ImageContent(data=encoded(PNG), mimeType="image/png"), "(an image, image/png, 8 bytes)"),
    "dict alone": (image(), "(an image, image/png, 8 bytes)"),
}


@pytest.mark.parametrize(("value", "shown"), [pytest.param(*row, id=name) for name, row in READ.items()])
def test_each_result_is_read(value: object, shown: str) -> None:
    """Content is shown block by block; structured content is shown where no text says it."""
    assert render(Success(value)) == shown
    assert openai.message(Call("x"), Success(value))["content"] == shown


OTHER: dict[str, object] = {
    "other keys": {"content": [text("a")], "title": "b"},
    "content of another kind": {"content": "a"},
    "no content": {"content": []},
    "blocks of another kind": {"content": [{"type": "div"}]},
    "a field of a form": {"type": "text", "text": "a", "required": True},
    "an image without data": {"type": "image", "url": "https://a.b/c.png"},
    "a flag alone": {"isError": True},
}


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in OTHER.items()])
def test_other_data_stays_data(value: object) -> None:
    """A value is read as a result only if it has nothing else, so that nothing of it is lost."""
    assert json.loads(render(Success(value))) == value


def test_the_structured_value_is_the_data() -> None:
    """In JSON a result is its structured value, and without one its text."""
    both = {"content": [text("one")], "structuredContent": {"n": 1}}
    assert json.loads(render(Success(both), profile="structured")) == {"ok": True, "data": {"n": 1}}
    assert json.loads(render(Success({"content": [text("one")]}), profile="structured")) == {"ok": True, "data": "one"}


def test_parts_reach_the_providers() -> None:
    """Images and PDF files are sent as such where the provider takes them, and an error is marked as one."""
    blocks = [text("a"), image(), resource(blob=encoded(PDF), mimeType="application/pdf"), LINK]
    outcome = Success({"content": blocks, "isError": True})
    told = anthropic.result(Call("x"), outcome)
    assert told["is_error"] is True
    assert [block["type"] for block in told["content"]] == ["text", "image", "document", "text"]
    told = openai.message(Call("x"), outcome, api="responses")
    assert [item["type"] for item in told["output"]] == ["input_text", "input_image", "input_file", "input_text"]
    assert told["output"][0]["text"] == "Error: a"
    assert anthropic.result(Call("x"), Success({"content": [text("a")]}))["is_error"] is False


def test_a_hostile_result_is_not_read() -> None:
    """A value whose attributes raise is shown as any other value."""

    class Hostile:
        @property
        def content(self) -> Any:
            raise RuntimeError("hunter2")

        isError = False  # noqa: N815  # the protocol's name

    assert "type Hostile" in render(Success(Hostile()))
