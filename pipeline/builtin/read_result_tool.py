"""ReadResult: a tool with which a model reads on in a large result that `Shape` has cut and kept."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ..base.nesting import refuse_deep
from ..engine.compose.pipeline import Pipeline
from ..messages.values import as_text
from ..middlewares.shape import Shape
from ..parameters.schema import is_array, is_object
from ..privacy import PublicText
from ..stores import StoreError
from ..tools.context import ToolContext
from ..tools.definition import Tool
from ..tools.failure import ToolFailed

_LENGTH: Final = 20_000  # characters of one read, at most
_HEAD: Final = 100  # for the line above them
_LONGEST_WORDS: Final = 1_000
_PLACES: Final = 20  # that one search shows
_AROUND: Final = 80  # characters on both sides of a place
_LONGEST_JSON: Final = 5_000_000  # characters: what is read by a path is in memory as a whole
_INDEX: Final = re.compile("[0-9]{1,18}")
_GONE: Final = "No result is kept under this handle. It has expired, or belongs to another conversation."


class ReadResult:
    """A tool that reads a part of a kept result: by place, by the path of a JSON value, or by a search for a text.

    It reads what the same principal was told in the same conversation. Its own results are cut by `Shape` and never
    kept.

    Args:
        shape: The stage that keeps the results.
        name: The name of the tool.

    Raises:
        SetupError: The stage keeps none.
    """

    def __init__(self, shape: Shape, *, name: str = "read_result") -> None:
        self.name = name
        self._kept = shape.read_with(name)
        room = [_LENGTH, *(each for each in (shape.find_most(name), shape.max_tokens) if each is not None)]
        self._most = max(_HEAD, min(room) - _HEAD)

    def attach(self, pipeline: Pipeline) -> None:
        """As the other tools have it: this one needs no pipeline."""

    def tool(self) -> Tool[..., Any]:
        """The tool to register."""
        return Tool.from_schema(
            name=self.name,
            parameters={
                "type": "object",
                "properties": {
                    "handle": {"type": "string", "description": "The handle of the result, such as res_7f3c2a"},
                    "start": {"type": "integer", "minimum": 0, "description": "The first character to read, from 0"},
                    "length": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": self._most,
                        "description": "How many to read",
                    },
                    "path": {"type": "string", "description": "A JSON Pointer into the result, such as /items/0/name"},
                    "search": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": _LONGEST_WORDS,
                        "description": "A text to find; it shows the places, in place of a part",
                    },
                },
                "required": ["handle"],
                "additionalProperties": False,
            },
            handler=self.run,
            description=(
                "Reads on in a long result of another tool of which a part was left out: the characters from start on, "
                "the value at a path, or the places of a text."
            ),
            effect="read",
            run_in="loop",
            context=True,
            errors={StoreError: "transient"},
        )

    async def run(
        self, context: ToolContext, /, handle: str, start: int = 0, length: int = 0, path: str = "", search: str = ""
    ) -> str:
        """The handler of the tool.

        Args:
            context: Says who asks, and in which conversation.
            handle: As the model read it.
            start: The first character, of the result or of the value at ``path``; of a search, where it begins.
            length: Characters; 0: as many as one read may have.
            path: A JSON Pointer; "": the whole result.
            search: A text to find; "": none.

        Raises:
            ToolFailed: Nothing is kept under the handle, or at the path.
        """
        who, length = (context.principal, context.conversation), length or self._most
        if search and path:
            raise ToolFailed("Send path or search, not both.", kind="validation", parameter="search")
        total = await self._kept.count(who, handle)
        if total is None:
            raise ToolFailed(_GONE, kind="not_found", parameter="handle")
        if search:
            return await self._search(who, handle, search, start)
        if path:
            value = await self._read_value(who, handle, path, total)
            total, part = len(value), value[start : start + length]
        else:
            part = await self._read(who, handle, start, min(length, max(0, total - start)))
        if start >= total and total:
            raise ToolFailed(f"It has {total} characters.", kind="validation", parameter="start")
        return f"Characters {start:,} to {start + len(part):,} of {total:,}:\n{part}"

    async def _search(self, who: tuple[object, str], handle: str, words: str, start: int) -> str:
        around = max(0, min(_AROUND, (self._most // 4 - len(words)) // 2))
        room = self._most // (len(words) + 2 * around + 20)
        answer = await self._kept.search(who, handle, words, start, most=max(1, min(_PLACES, room)), around=around)
        if answer is None:
            raise ToolFailed(_GONE, kind="not_found", parameter="handle")
        found, more = answer
        lines = [f"{place.at}: {json.dumps(place.around, ensure_ascii=False)[1:-1]}" for place in found]
        head = f"Places from character {start:,} on: {len(found)}" if found else "The text is not there."
        return "\n".join([head, *lines, *([] if more is None else [f"There are more: search on with start {more}."])])

    async def _read(self, who: tuple[object, str], handle: str, start: int, length: int) -> str:
        part = await self._kept.read(who, handle, start, length) if length else ""
        if part is None:
            raise ToolFailed(_GONE, kind="not_found", parameter="handle")
        return part

    async def _read_value(self, who: tuple[object, str], handle: str, path: str, total: int) -> str:
        if total > _LONGEST_JSON:
            raise ToolFailed(
                f"The result is too long to be read by path. Read {self._most} characters from a start, or search.",
                parameter="path",
            )
        text = await self._read(who, handle, 0, total)
        try:
            here: Any = json.loads(refuse_deep(text))
        except ValueError:
            raise ToolFailed("The result is not JSON, so it has no paths.", parameter="path") from None
        steps = path.split("/")
        if steps[0]:
            raise ToolFailed("A path begins with /, as in /items/0/name.", kind="validation", parameter="path")
        for number, step in enumerate(steps[1:], 2):
            key = step.replace("~1", "/").replace("~0", "~")  # RFC 6901
            if is_object(here) and key in here:
                here = here[key]
            elif is_array(here) and _INDEX.fullmatch(key) and int(key) < len(here):
                here = here[int(key)]
            else:
                raise ToolFailed(
                    PublicText(f"There is nothing at {'/'.join(steps[:number])}. {_describe(here)}"),
                    kind="not_found",
                    parameter="path",
                )
        return as_text(here)


def _describe(value: Any) -> str:
    if is_object(value):
        keys = list(value)[:10]
        return f"There, the keys are: {', '.join(keys)}{', …' if len(value) > len(keys) else ''}."
    return f"There is an array of {len(value)}." if is_array(value) else "There is no object and no array."


def find_shape(pipeline: Pipeline) -> Shape | None:
    """The stage of a pipeline that keeps results; None: there is none."""
    stages = (stage.obj for stage in pipeline.entries)
    return next((each for each in stages if isinstance(each, Shape) and each.keep is not None), None)
