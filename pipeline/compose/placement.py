"""Placement: what a stage declares about its place in a stack."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class Placement:
    """What a stage says about itself as its class attribute ``placement``. A stage without one may stand anywhere.

    A subclass inherits it, so the rules for `Cache` hold for ``class MyCache(Cache)`` as well.

    Args:
        kind: The name by which the rules of other stages know it, such as ``"retry"``. Default "": no rule knows it.
        reason: One line for `Pipeline.describe`: why the stage stands where it does.
        inside_of: Kinds of stage inside of which this one must stand if both are there, each with the reason.
        repeats: The stage may run its inside more than once. What it repeats is an attempt, with a span of its own. A
            pipeline has at most one such stage.
        marks: The stage never does the work of a tool itself, or calls `pipeline.executors.begin_body` right before it
            does. Without it, a call that ends while the stage has not called on counts as one that may have landed.
        owns_registry: The attribute ``registry`` of the stage is one in which the pipeline finds its tools.
    """

    kind: str = ""
    reason: str = ""
    inside_of: Mapping[str, str] = attrs.field(factory=dict[str, str])
    repeats: bool = False
    marks: bool = False
    owns_registry: bool = False


ANYWHERE = Placement()
