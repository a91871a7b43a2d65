"""Placement: the place that a stage declares for itself in a stack."""

from __future__ import annotations

from collections.abc import Collection, Mapping

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
        runs_body: Of a middleware. True: it does the tool's work itself, and counts as the body from its entry until it
            calls on. It must stand inside of all that decides whether the body may begin. False: it never does. Default
            None: it does not say. It is not taken for the body either, but a tool that changes something is not
            repeated after a failure that arose in it before it called on.
        announces_body: Of an end. It says when the body begins, with `begin_body`. Default False: it counts as the body
            from its entry.
        holds_back: The stage may answer in place of the body; this says why a stage that begins the call must stand
            inside of it. Default "": it does not.
        begins: The stage writes down that the call has begun, as `Ledger` does: it must stand inside of each stage that
            ``holds_back``. Its method ``look_up``, a middleware, runs ahead of these.
        decides: Kinds of error, and reasons of an Unavailable, with which this stage answers: the log names it then.
        tool_options: Attributes of the stage that hold names of tools, as a mapping by name or a collection. A pipeline
            refuses a name that none of its registries has. An attribute that is None or a function is left alone.
            ``renames.values`` are the values of a mapping, and of ``tools.patterns`` patterns are left alone.
        owns_registry: The attribute ``registry`` of the stage holds tools of the pipeline.
    """

    kind: str = ""
    reason: str = ""
    inside_of: Mapping[str, str] = attrs.field(factory=dict[str, str])
    needs: Mapping[str, str] = attrs.field(factory=dict[str, str])
    repeats: bool = False
    runs_body: bool | None = None
    announces_body: bool = False
    holds_back: str = ""
    begins: bool = False
    decides: Collection[str] = ()
    tool_options: tuple[str, ...] = ()
    owns_registry: bool = False


ANYWHERE = Placement()
