"""The outcome of a call as the result of ``tools/call``: content blocks, the structured value, the kind of a failure.

Source: https://modelcontextprotocol.io/specification (server/tools, "Tool Result").
"""

from __future__ import annotations

from typing import Any, Final, cast
from urllib.parse import quote

from returns.result import Failure

from ..adapters.common import to_parts
from ..engine.call import Call, Outcome, is_failure
from ..engine.errors import AwaitingApproval, ToolError
from ..messages import Wording, render
from ..messages.parts import Audio, File, Image, Link, Part
from ..messages.result_parts import find_parts, read_mcp
from ..messages.text import replace_surrogates
from ..messages.values import to_data
from ..privacy import get_logger
from ..tools.output_forms import OutputForm
from .jsonrpc import Message, is_message

_LOG = get_logger()
_TOLD: Final = "execution"  # the kind of a failure that a tool reported in a result of its own
_SCALARS: Final = frozenset((str, int, bool, float, type(None)))
_SHORT: Final = 50_000  # characters of a value that `render` does not cut
_UNFIT: Final = "The tool ran, but its result does not have the form that the tool declares. The result:"


def make_result(
    outcome: Outcome[Any], form: OutputForm | None = None, name: str = "", call: Call | None = None
) -> Message:
    """Return the result that reports an outcome to a client.

    A value that does not fit the declared form is sent as an error, with the value: a client would refuse it otherwise.
    """
    if is_failure(outcome):
        return make_error_result(outcome.failure(), complete=False, call=call)
    value: Any = outcome.unwrap()
    if form is None and type(value) is str:
        return {"content": [_make_text(render(outcome, call=call))], "isError": False}
    parts = None if type(value) in _SCALARS else find_parts(value, with_bytes=True)
    result: Message
    if parts is not None:
        result = _make_content(outcome, value, call)
        if form is None or result["isError"]:
            return result
        read = read_mcp(value)
        given = value if read is None else read.structured
        structured = form.structure(given, *to_data(given))
    else:
        data, text = to_data(value)
        # render would make the same text of a short value once more
        is_plain = call is None or call.wording is None
        is_whole = is_plain and value is not None and len(text) <= _SHORT and not text.startswith('"')
        told = replace_surrogates(text) if is_whole else render(outcome, call=call)
        result = {"content": [_make_text(told)], "isError": False}
        if form is None:
            return result
        structured = form.structure(value, data, text)
    if structured is None:
        _LOG.warning("a result does not have the form that its tool declares, so a client is told an error: %s", name)
        return {"content": [_make_text(_UNFIT), *result["content"]], "isError": True, "_meta": {KIND: _TOLD}}
    result["structuredContent"] = structured
    return result


def _make_content(outcome: Outcome[Any], value: Any, call: Call | None) -> Message:
    """The result of a value that is made of parts."""
    native = _read_native(value)
    if native is not None:
        return native
    result: Message = {"content": [_make_block(part) for part in to_parts(outcome, call)], "isError": False}
    read = read_mcp(value)
    if read is not None:
        if read.is_error:
            return {**result, "isError": True, "_meta": {KIND: _TOLD}}
        if is_message(read.structured):
            result["structuredContent"] = read.structured
    return result


def _make_text(text: str) -> Message:
    return {"type": "text", "text": text}


def _make_block(part: Part) -> Message:
    match part:
        case str():
            return _make_text(part)
        case Image() | Audio():
            kind = "image" if isinstance(part, Image) else "audio"
            return {"type": kind, "data": part.base64, "mimeType": replace_surrogates(part.media_type)}
        case File():
            uri = f"attachment:///{quote(part.name or 'file', errors='replace')}"
            resource = {"uri": uri, "mimeType": replace_surrogates(part.media_type), "blob": part.base64}
            return {"type": "resource", "resource": resource}
        case Link():
            about = {"description": part.description, "mimeType": part.media_type}
            given = {
                "uri": part.uri,
                "name": part.name or part.uri,
                **{key: each for key, each in about.items() if each},
            }
            return {"type": "resource_link", **{key: replace_surrogates(each) for key, each in given.items()}}


def _read_native(value: Any) -> Message | None:
    """The result that a tool made of objects of the package ``mcp``, as it is; None: it did not."""
    if is_native(value, "CallToolResult"):
        result: Message = value.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {**result, "_meta": {KIND: _TOLD, **result.get("_meta", {})}} if result.get("isError") else result
    items: list[Any] = cast("list[Any]", value) if type(value) is list else [value]
    if not items or not all(is_native(item, *_BLOCKS) for item in items):
        return None
    blocks = [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in items]
    return {"content": blocks, "isError": False}


def is_native(value: object, *names: str) -> bool:
    """Whether a value is an object of one of these classes of the package ``mcp``."""
    kind = type(value)
    return kind.__name__ in names and kind.__module__.partition(".")[0] in ("mcp", "mcp_types")


_BLOCKS: Final = ("TextContent", "ImageContent", "AudioContent", "EmbeddedResource", "ResourceLink")


KIND: Final = "toolcall/kind"  # in the `_meta` of a result that the server did not make


def make_error_result(
    error: ToolError, *, complete: bool, call: Call | None = None, wording: Wording | None = None
) -> Message:
    """Make the result that reports a failure of the pipeline to a client, in the form of a tool's own failure.

    Args:
        error: The failure.
        complete: Whether to say ``resultType: "complete"``, as the versions without a handshake demand (from 2026).
        call: The call, for the wording of its texts. Default None: there is none.
        wording: Another wording than the call's. Default None: the call's.
    """
    outcome: Outcome = Failure(error)
    result: Message = {
        "content": [{"type": "text", "text": str(render(outcome, call=call, wording=wording))}],
        "isError": True,
        "_meta": {KIND: error.kind, **_name_decision(error)},
    }
    return {"resultType": "complete", **result} if complete else result


def _name_decision(error: ToolError) -> Message:
    """For a person at the client: the id of a call that waits, and the command that decides on it."""
    if not isinstance(error, AwaitingApproval):
        return {}
    return {"toolcall/approval": error.id, "toolcall/decide": f"toolcall approvals STORE approve|reject {error.id}"}
