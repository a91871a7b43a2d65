"""Shape: bounds what a model reads of a result, and says what is left out and how to get it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs
from returns.result import Failure, Success

from ..base import timing
from ..base.foreign_values import FaultBarrier
from ..base.options import check_count, check_type, is_count, is_number, is_type, maps_names, refuse
from ..base.setup_error import SetupError
from ..engine.call import Outcome, ResolvedCall
from ..engine.compose import Handler, Placement
from ..engine.errors import ToolError
from ..messages.result_parts import find_parts
from ..messages.shaping import Shaped, shape_error, shape_value
from ..messages.values import to_data
from ..privacy import get_logger, make_mask
from ..tools import Tool

if TYPE_CHECKING:
    from ..stage_state.kept_results import KeptResults
    from ..stores import Store

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
_LONGEST_WAIT = 10.0  # seconds for the store; a result that comes too late is lost
_LOG = get_logger()
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
        keep: A store that keeps the text of a result of which something is left out. The model gets its handle, and
            reads on with the tool ``read_result``, which `builtin.install` puts in; before that nothing is kept. A
            handle holds for its principal and conversation alone. Declared secrets are masked in what is kept, and then
            also in what is shown. What cannot be kept is shown without a handle. Default None: nothing is kept.
        keep_seconds: How long a result is kept, > 0. Default 3600.
        keep_bytes: Bytes that are kept for one principal in one conversation, ≥ 1, in at most 100 results. The oldest
            make room, and a larger one is not kept. Default 128 MiB.

    Raises:
        SetupError: A limit is too small, or ``tools`` or ``hints`` is not a mapping of names.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="shape",
        tool_options=("tools", "hints"),
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
    keep: Store | None = attrs.field(default=None, kw_only=True, repr=False)
    keep_seconds: float = attrs.field(default=3600.0, validator=is_number(above=0, unit="seconds"), kw_only=True)
    keep_bytes: int = attrs.field(default=134_217_728, validator=is_count(), kw_only=True)
    _kept: KeptResults | None = attrs.field(init=False, repr=False, default=None)
    _reader: str = attrs.field(init=False, repr=False, default="")

    def __attrs_post_init__(self) -> None:
        if self.keep is not None and (isinstance(self.keep, type) or not callable(getattr(self.keep, "write", None))):
            refuse("Shape", "keep", "a store, such as stores.SQLite(path), or None", self.keep)

    @property
    def resources(self) -> tuple[Store, ...]:
        """The store, which the pipeline opens and closes."""
        return () if self.keep is None else (self.keep,)

    def read_with(self, name: str) -> KeptResults:
        """Keep results from now on, for the tool of this name to read them.

        Raises:
            SetupError: The stage has no ``keep``.
        """
        if self.keep is None:
            raise SetupError(f"{name} reads what a Shape keeps, and this one has no `keep`")
        from ..stage_state.kept_results import KeptResults  # most keep nothing

        if self._kept is None:
            self._kept = KeptResults(self.keep, self.keep_seconds, self.keep_bytes)
        self._reader = name
        return self._kept

    @property
    def kept(self) -> tuple[str, KeptResults] | None:
        """The name of the tool that reads what is kept, and what is kept; None: nothing is."""
        return None if self._kept is None else (self._reader, self._kept)

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome, bounded."""
        outcome = await call_next(call)
        if type(outcome) is Failure:
            error: ToolError = outcome.failure()
            bounded = shape_error(error, self.find_most(call.tool.name), self.max_tokens, neutralise=self.neutralise)
            return outcome if bounded is error else Failure(bounded)
        value: Any = outcome.unwrap()
        if type(value) in _SHORT:
            return outcome
        way = partial(self._way, call.tool)
        if self._kept is None or call.tool.name == self._reader:
            shaped = self._shape(call, value, way)
        else:
            shaped = await self._shape_and_keep(call, value, way, self._kept)
        if shaped.value is value:
            return outcome
        if call.report is not None:
            call.report.note(self, f"shaped: {shaped.before:,} characters became {shaped.after:,}")
        return Success(shaped.value)

    def _shape(self, call: ResolvedCall, value: object, way: Callable[[], str]) -> Shaped:
        most = self.find_most(call.tool.name)
        return shape_value(value, most, self.max_tokens, way, empty=self.empty, neutralise=self.neutralise)

    async def _shape_and_keep(
        self, call: ResolvedCall, value: Any, way: Callable[[], str], kept: KeptResults
    ) -> Shaped:
        """Shape a value, and keep its text where something is left out; without a handle where that is not done."""
        from ..stage_state.kept_results import make_handle

        handle, asked = make_handle(), False

        def tell() -> str:
            nonlocal asked
            asked = True
            hint = self.hints.get(call.tool.name) if self.hints else None
            return f"{f'{hint} ' if hint else ''}To read on, use {self._reader} with handle {handle}."

        shaped = self._shape(call, value, tell)
        if not asked:
            return shaped
        if (mask := make_mask(call, call.tool)) is not None:
            # Parts have no mask, and the one of a composite tool would leave nothing.
            if call.tool.composite or (not isinstance(value, str) and find_parts(value) is not None):
                return self._shape(call, value, way)
            value = mask.value(value if isinstance(value, str) else to_data(value)[0])
            shaped = self._shape(call, value, tell)
        is_kept = False
        seconds = min(_LONGEST_WAIT, timing.time_left() / 2)
        with FaultBarrier(_LOG, "Shape: a result could not be kept"), timing.move_on_after(seconds):
            is_kept = await kept.keep((call.principal, call.conversation), handle, shaped.whole)
        return shaped if is_kept else self._shape(call, value, way)

    def find_most(self, name: str) -> int | None:
        """Number of characters that the result of a tool may have."""
        return self.tools.get(name, self.max_characters) if self.tools else self.max_characters

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
