"""Validate: the arguments as the model sent them -> params, or all that is wrong with them at once."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
from returns.result import Failure

from ..base.options import check_type, read_names
from ..engine.call import ResolvedCall, ValidCall
from ..engine.compose import Placement
from ..engine.errors import InvalidParams, MalformedCall
from ..parameters import RULES, Limits, Rule

_DEFAULT = Limits()
_WITHHELD = MalformedCall("the provider withheld the rest of this reply")
_STOPPED = {  # finish reasons after which a call may be incomplete; after any other it is whole
    "length": MalformedCall("the provider stopped at its length limit", truncated=True),
    "content_filter": _WITHHELD,
    "refusal": _WITHHELD,
}
_DICT: Any = dict  # under this name type checkers do not narrow to `dict[Unknown, Unknown]`


@attrs.frozen
class Validate:
    """Parses the arguments by the tool's schema, and repairs them where what was meant is in what was sent.

    They may be a mapping, JSON text, empty text or None. Each repair is in ``call.repairs``.

    Args:
        repair: The rules that may be used, of `toolcall_pipeline.parameters.RULES`; default: all of them; ``()``:
            none, so that every mistake is refused.
        limits: How large the arguments may be; default: `Limits()`. A larger call is refused as `MalformedCall` or
            `InvalidParams`, with the limit in its text.
    """

    placement: ClassVar[Placement] = Placement(
        kind="validate",
        reason="last of the checks: from here on params are what the tool asked for",
        decides=("malformed_call", "validation"),
    )

    repair: tuple[Rule, ...] = RULES
    limits: Limits = _DEFAULT
    _rules: frozenset[Rule] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        check_type("Validate", "limits", self.limits, Limits)
        object.__setattr__(self, "_rules", read_names("Validate", "repair", self.repair, RULES))

    def __call__(self, call: ResolvedCall) -> ValidCall | Failure[MalformedCall | InvalidParams]:
        """Return the call with its params, or a Failure that holds all problems at once.

        A call that the provider cut off or withheld is refused, even if what is left of it parses.
        """
        if call.finish_reason is not None and (stopped := _STOPPED.get(call.finish_reason)) is not None:
            return Failure(stopped)
        parameters, arguments = call.tool.parameters, call.arguments
        # Valid arguments of most tools can break no limit; all others are measured before anything else reads them.
        is_small = parameters.is_textless and self.limits.flat_value >= 0 and type(arguments) is _DICT
        unmeasured = is_small or parameters.keeps_limits(arguments, self.limits)
        if not unmeasured and (too_large := self.limits.check(arguments)) is not None:
            return Failure(too_large)
        params: Any = call.tool.parse(arguments)
        if type(params) is _DICT:
            return call.validated(params, parameters.find_kept(arguments) if parameters.is_open else ())
        longest = -1 if call.repairs else self.limits.flat_value
        if type(params) is InvalidParams and parameters.is_settled(arguments, params, self._rules, longest):
            return Failure(self.limits.tell(params))
        if unmeasured and (too_large := self.limits.check(arguments)) is not None:
            return Failure(too_large)
        return self._repair_or_refuse(call, params)

    def _repair_or_refuse(
        self, call: ResolvedCall, error: InvalidParams | MalformedCall
    ) -> ValidCall | Failure[MalformedCall | InvalidParams]:
        parameters, arguments = call.tool.parameters, call.arguments
        repaired = parameters.repair(arguments, error, self._rules, self.limits, (call.tool.name, str(call.name)))
        if type(repaired) is tuple:
            return call.validated(*repaired)
        if type(repaired) is InvalidParams:  # its problems are in the arguments as far as they were repaired
            error, arguments = repaired, repaired.sent
        if type(error) is InvalidParams:
            return Failure(self.limits.tell(parameters.advise(arguments, error, call.repairs)))
        return Failure(error.changed(schema=parameters.schema))
