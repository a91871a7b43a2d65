"""Validate: the arguments as the model sent them -> params, or all that is wrong with them at once."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import attrs
from returns.result import Failure

from pipeline import InvalidParams, MalformedCall, Placement, ResolvedCall, SetupError, ValidCall
from pipeline.parameters.repair import RULES, Rule, is_plain, repaired
from pipeline.parameters.suggestions import hinted

_WITHHELD = MalformedCall("the provider withheld the rest of this reply")
_STOPPED = {  # finish reasons that say that a call may not be whole; all else ended as it should
    "length": MalformedCall("the provider stopped at its length limit", truncated=True),
    "content_filter": _WITHHELD,
    "refusal": _WITHHELD,
}


@attrs.frozen
class Validate:
    """Takes a mapping, JSON text, empty text or None, by the tool's own schema.

    What fails is repaired by the rules of ``repair`` where the value that was meant is in what was sent; ``()`` refuses
    it all. Each repair is in ``call.repairs``.
    """

    placement: ClassVar[Placement] = Placement(
        kind="validate",
        reason="last of the checks: from here on params are what the tool asked for",
    )

    repair: tuple[Rule, ...] = RULES
    _rules: frozenset[str] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        given: Any = self.repair
        if isinstance(given, str) or not set(given) <= set(RULES):
            raise SetupError(f"Validate: repair is a tuple of rules, of {', '.join(RULES)}, and not {given!r}")
        object.__setattr__(self, "_rules", frozenset(given))

    def __call__(self, call: ResolvedCall) -> ValidCall | Failure[MalformedCall | InvalidParams]:
        """The call with its params. What was cut off or withheld is refused even if what is left parses."""
        if call.finish_reason is not None and (stopped := _STOPPED.get(call.finish_reason)) is not None:
            return Failure(stopped)
        params = call.tool.parse(call.arguments)
        if type(params) is dict:
            return call.validated(params)
        return self._refused(call, cast("InvalidParams | MalformedCall", params))

    def _refused(
        self, call: ResolvedCall, error: InvalidParams | MalformedCall
    ) -> ValidCall | Failure[MalformedCall | InvalidParams]:
        tool, sent = call.tool, call.arguments
        plain = is_plain(error, sent, tool)
        if not plain and self._rules and (found := repaired(sent, error, tool, self._rules)) is not None:
            return call.validated(*found)
        if type(error) is InvalidParams:
            schema = tool.schema or {}
            told = error.problems if plain else hinted(error.problems, sent, schema)
            if call.repairs or told is not error.problems:
                error = InvalidParams(told, call.repairs)
            error.remember(sent, schema)
        return Failure(error)
