"""Shape: bounds what a model reads of a result, and says what is left out and how to get it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar

import attrs
from returns.result import Failure, Success

from ..base.options import check_count, check_type, is_count, is_type, maps_names
from ..engine.call import Outcome, ResolvedCall
from ..engine.compose import Handler, Placement
from ..engine.errors import ToolError
from ..messages.shaping import shape_error, shape_value
from ..tools import Tool

R = TypeVar("R", bound=ResolvedCall)

# Parameters that let a model read on, and parameters that limit how much it reads.
_POSITIONS = (
    "offset",
    "start",
    "skip",
    "page",
    "cursor",
    "page_token",
    "start_line",
    "from_line",
    "after",
    "start_index",
)
_SIZES = ("limit", "max_results", "page_size", "per_page", "count", "max_lines", "end_line", "top_k", "first")
_SHORT = frozenset((bool, int, float))  # `render` bounds the digits of a number


@attrs.define(eq=False)
class Shape:
    r"""A middleware that makes a result as long as a model should read it.

    A result that fits stays as it is, the same object. Of a longer one:

    - text keeps its head and tail;
    - a list keeps its first items, an object all its keys and the short ones of its values; both stay valid JSON, and
      so does text that is JSON;
    - images and other parts are kept.

    Where something is left out stands how much it was and how the model gets it: a hint of the author, or the tool's
    own parameters for paging, such as ``offset`` and ``limit``. An empty result becomes a word. The texts of a failure
    are bounded as well.

    A result that is changed is text or plain data afterwards, no longer of the tool's own type. So it is for pipelines
    whose results a model reads, and not in `standard`. `pipeline.render` bounds any text at 100,000 characters.

    Args:
        max_characters: Characters of a result, ≥ 200. Default 20,000. None: no limit.
        max_tokens: Estimated tokens of a result, ≥ 50: a quarter for each ASCII character, one for any other. The
            smaller limit counts. Default None: no limit.
        tools: Characters of the results of single tools, by name, in place of ``max_characters``. None: no limit.
        hints: How to get what is left out, by the tool's name: a sentence for the model.
        empty: The word for an empty result. Default None: "(no output)" for no text, "(no results)" for an empty list
            or object.
        neutralise: Escape control characters, directional marks, tags and other invisible characters, as in
            ``\u202e``. Line ends and tabs stay. Default False: results are shown as they are.

    Raises:
        SetupError: A limit is too small, or ``tools`` or ``hints`` is not a mapping of names.
    """

    placement: ClassVar[Placement] = Placement(
        announces_body=True,
        kind="shape",
        reason="outside of cache and retry: what is kept and tried is the whole result",
    )

    max_characters: int | None = attrs.field(default=20_000, validator=is_count(200, optional=True))
    max_tokens: int | None = attrs.field(default=None, validator=is_count(50, optional=True), kw_only=True)
    tools: Mapping[str, int | None] | None = attrs.field(
        default=None, validator=attrs.validators.optional(maps_names(check_count, 200, optional=True)), kw_only=True
    )
    hints: Mapping[str, str] | None = attrs.field(
        default=None, validator=attrs.validators.optional(maps_names(check_type, str)), kw_only=True
    )
    empty: str | None = attrs.field(default=None, validator=is_type(str, optional=True), kw_only=True)
    neutralise: bool = attrs.field(default=False, validator=is_type(bool), kw_only=True)

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome, bounded."""
        outcome = await call_next(call)
        if type(outcome) is Failure:
            error: ToolError = outcome.failure()
            bounded = shape_error(error, self._most(call), self.max_tokens, neutralise=self.neutralise)
            return outcome if bounded is error else Failure(bounded)
        value: Any = outcome.unwrap()
        if type(value) in _SHORT:
            return outcome
        way = partial(self._way, call.tool)
        most, tokens = self._most(call), self.max_tokens
        shaped = shape_value(value, most, tokens, way, empty=self.empty, neutralise=self.neutralise)
        if shaped.value is value:
            return outcome
        if call.report is not None:
            call.report.note(self, f"shaped: {shaped.before:,} characters became {shaped.after:,}")
        return Success(shaped.value)

    def _most(self, call: ResolvedCall) -> int | None:
        """Number of characters that the result of a tool may have."""
        return self.tools.get(call.tool.name, self.max_characters) if self.tools else self.max_characters

    def _way(self, tool: Tool[..., Any]) -> str:
        """The way for the model to get the part that is left out."""
        if self.hints and tool.name in self.hints:
            return self.hints[tool.name]
        names: Any = tool.parameters.schema.get("properties") or ()
        position = next((name for name in _POSITIONS if name in names), None)
        size = next((name for name in _SIZES if name in names), None)
        if position is None:
            return f"Ask for less with `{size}`." if size else ""
        return f"To read on, use `{position}`{f' and `{size}`' if size else ''}."
