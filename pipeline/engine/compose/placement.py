"""Placement: the place that a stage declares for itself in a stack."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class Placement:
    """The class attribute ``placement`` of a stage. A stage without one may stand anywhere.

    A subclass inherits it, so the rules for `Cache` hold for ``class MyCache(Cache)`` as well.

    Args:
        kind: The name that the rules of other stages use for it, such as ``"retry"``. Default "": no rule knows it.
        reason: One line for `Pipeline.describe`: why the stage stands where it does.
        inside_of: Kinds of stage that must stand around this one if both are there, each with the reason. Where
            there are several stages of this kind, one of them there will do.
        needs: Kinds of stage; one of each must stand inside of this one, each with the reason. A stage without a kind
            will do as well: its work is unknown.
        repeats: The stage may run its inside more than once. Each run is an attempt, with a span of its own. A
            pipeline has at most one such stage.
        announces_body: The stage never runs the tool's body itself or, if it is an end, says when the body begins, with
            `begin_body`; what it answers in place of its inside is true of the whole call. Default False: the stage
            counts as the body until it calls on, and cannot answer that nothing ran where a body may have taken effect.
        tool_options: Attributes of the stage that hold names of tools, as a mapping by name or a collection. A pipeline
            refuses a name that none of its registries has. An attribute that is None or a function is left alone.
        owns_registry: The attribute ``registry`` of the stage holds tools of the pipeline.
    """

    kind: str = ""
    reason: str = ""
    inside_of: Mapping[str, str] = attrs.field(factory=dict[str, str])
    needs: Mapping[str, str] = attrs.field(factory=dict[str, str])
    repeats: bool = False
    announces_body: bool = False
    tool_options: tuple[str, ...] = ()
    owns_registry: bool = False


ANYWHERE = Placement()
