"""Validate: the arguments as the model sent them -> params, or all that is wrong with them at once."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import attrs
from returns.result import Failure

from ..base.options import check_type, read_names
from ..engine.call import ResolvedCall, ValidCall
from ..engine.compose import Placement
from ..engine.errors import InvalidParams, MalformedCall
from ..parameters import RULES, Limits, Rule

# By these names a type checker does not narrow a value of any type to one of unknown things.
_DICT: Any = dict
_INVALID_PARAMS: Any = InvalidParams
_ANY = 2**62  # characters: no text is longer
_DEFAULT = Limits()
_WITHHELD = MalformedCall("the provider withheld the rest of this reply")
_STOPPED = {  # finish reasons after which a call may be incomplete; after any other it is whole
    "length": MalformedCall("the provider stopped at its length limit", truncated=True),
    "content_filter": _WITHHELD,
    "refusal": _WITHHELD,
}


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
    )

    repair: tuple[Rule, ...] = RULES
    limits: Limits = _DEFAULT
    _rules: frozenset[Rule] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        check_type("Validate", "limits", self.limits, Limits)
        object.__setattr__(self, "_rules", read_names("Validate", "repair", self.repair, RULES))

    def __call__(  # noqa: C901  # one frame
        self, call: ResolvedCall
    ) -> ValidCall | Failure[MalformedCall | InvalidParams]:
        """Return the call with its params, or a Failure that holds all problems at once.

        A call that the provider cut off or withheld is refused, even if what is left of it parses.
        """
        if call.finish_reason is not None and (stopped := _STOPPED.get(call.finish_reason)) is not None:
            return Failure(stopped)
        tool = call.tool
        parse, parameters = tool.parse, tool.parameters
        arguments: Any = call.arguments
        # Valid arguments of most tools are flat: then only long texts can break a limit, and the rest is looked at only
        # where it is not valid.
        if not parameters.flat:
            measured = True
        elif type(arguments) is _DICT:
            measured = False
            for name in parameters.texts:
                value = arguments.get(name)
                if type(value) is str and len(value) > self.limits.flat_value:
                    measured = True
        else:
            measured = type(arguments) is not str or len(arguments) > self.limits.flat_text
        if measured and (too_large := self.limits.check(arguments)) is not None:
            return Failure(too_large)
        params: Any = parse(arguments)
        if type(params) is _DICT:
            if parameters.root is not None and not (parameters.flat and parameters.names.issuperset(params)):
                return self._accept(call, params)
            return call.validated(params)
        if type(params) is _INVALID_PARAMS and not call.repairs:
            # Of the arguments of a flat tool only wrong ones may still be too large: the right texts were measured.
            longest = _ANY if measured else self.limits.flat_value
            if parameters.is_settled(arguments, params, self._rules, longest):
                return Failure(params if len(params.problems) <= self.limits.problems else self.limits.tell(params))
        if not measured and (too_large := self.limits.check(arguments)) is not None:
            return Failure(too_large)
        return self._repair_or_refuse(call, params)

    def _accept(self, call: ResolvedCall, params: dict[str, Any]) -> ValidCall | Failure[InvalidParams]:
        """Accept what an open schema lets pass; a misspelt name in it is read as the declared one that was meant."""
        parameters = call.tool.parameters
        read = parameters.repair(call.arguments, None, self._rules, self.limits)
        if type(read) is InvalidParams:
            return Failure(self.limits.tell(parameters.advise(read.sent, read, call.repairs)))
        return call.validated(*read) if type(read) is tuple else call.validated(params)

    def _repair_or_refuse(
        self, call: ResolvedCall, error: InvalidParams | MalformedCall
    ) -> ValidCall | Failure[MalformedCall | InvalidParams]:
        parameters = call.tool.parameters
        names = (call.tool.name, call.name) if isinstance(cast("object", call.name), str) else (call.tool.name,)
        repaired = parameters.repair(call.arguments, error, self._rules, self.limits, names)
        if type(repaired) is tuple:
            return call.validated(*repaired)
        arguments = call.arguments
        if type(repaired) is InvalidParams:  # its problems are in the arguments as far as they were repaired
            error, arguments = repaired, repaired.sent
        if type(error) is InvalidParams:
            error = self.limits.tell(parameters.advise(arguments, error, call.repairs))
        else:
            error = attrs.evolve(error, schema=parameters.schema)
        return Failure(error)
