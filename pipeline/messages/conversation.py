"""Conversation: one model's memory of what failed before, so that the next text can say what changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from returns.result import Failure

from ..call import Call, Outcome
from ..errors import Repair, ToolError
from ..privacy import PublicText
from .profiles.profile import Profile, profile_of
from .rendering import render
from .text import verbosity_of

if TYPE_CHECKING:
    from .templates import Words


@attrs.define(eq=False)
class Conversation:
    """Tells outcomes, each with the same tool's last failure in mind; a pipeline itself keeps nothing of the kind.

    One for each conversation. Of as many tools as ``tools`` the last failure is kept, and a success forgets it. Raises
    SetupError as `say` does, but when it is made.
    """

    profile: str | Profile = "default"
    verbosity: str = "normal"
    templates: Mapping[str, Words] | None = None
    limit: int | None = 100_000  # characters of a success, as with `tell`
    tools: int = 64
    _failed: OrderedDict[str, ToolError] = attrs.field(init=False, repr=False, factory=OrderedDict[str, ToolError])

    def __attrs_post_init__(self) -> None:
        profile_of(self.profile)
        verbosity_of(self.verbosity)
        Profile("its own", self.templates or {})

    def render(self, call: Call, outcome: Outcome[Any], repairs: Sequence[Repair] = ()) -> PublicText:
        """The text for the model, as `tell` says; it knows the tool's name, and what failed before."""
        name = _name(call)
        previous = self._failed.pop(name, None)
        if type(outcome) is Failure:
            self._failed[name] = outcome.failure()
            while len(self._failed) > self.tools:
                self._failed.popitem(last=False)
        return render(
            outcome,
            profile=self.profile,
            previous=previous,
            verbosity=self.verbosity,
            templates=self.templates,
            tool=name,
            repairs=repairs,
            limit=self.limit,
        )

    def forget(self) -> None:
        """Begin anew."""
        self._failed.clear()


def _name(call: Call) -> str:
    """The tool's own name where it is known, else what the model wrote, which need not be text."""
    name: object = getattr(getattr(call, "tool", None), "name", call.name)
    return str.__str__(name) if isinstance(name, str) else ""
