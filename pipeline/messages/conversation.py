"""Conversation: remembers the last failures, for calls whose pipeline is told no conversation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from returns.result import Failure, Success

from ..engine.call import Call, Outcome
from ..engine.errors import Repair, ToolError
from ..privacy import PublicText
from .rendering import read_tool_name, render
from .wording import Profile, get_profile, get_verbosity

if TYPE_CHECKING:
    from .templates import Texts


@attrs.define(eq=False)
class Conversation:
    """Renders the outcomes of one conversation; a text says what changed since the last failure of the same tool.

    A success of a tool removes its failure from the memory. Of calls with a ``conversation`` a pipeline
    remembers them itself.

    Args:
        profile: As in `render`. Default None: as the pipeline words its texts.
        verbosity: As in `render`; likewise.
        templates: As in `render`; likewise.
        limit: As in `render`.
        tools: How many tools' last failures are remembered; the oldest is forgotten first. Default 64.
        listed: As in `render`; likewise.

    Raises:
        SetupError: The profile or the verbosity is not known, a template is not valid, or ``listed`` is negative.
    """

    profile: str | Profile | None = None
    verbosity: str | None = None
    templates: Mapping[str, Texts] | None = None
    limit: int | None = 100_000
    tools: int = 64
    listed: int | None = attrs.field(default=None, kw_only=True)
    _failed: OrderedDict[str, ToolError] = attrs.field(init=False, repr=False, factory=OrderedDict[str, ToolError])

    def __attrs_post_init__(self) -> None:
        get_profile(self.profile or "default")
        get_verbosity(self.verbosity or "normal")
        Profile("its own", self.templates or {})
        render(Success(None), listed=self.listed)

    def render(self, call: Call, outcome: Outcome[Any], repairs: Sequence[Repair] = ()) -> PublicText:
        """Render the outcome of a call for the model, as `render` does, and remember a failure.

        Args:
            call: The call, for the name of its tool and the wording of its pipeline.
            outcome: The outcome of the call.
            repairs: As in `render`.
        """
        name = read_tool_name(call)
        previous = self._failed.pop(name, None)
        if type(outcome) is Failure:
            self._failed[name] = outcome.failure()
            while len(self._failed) > self.tools:
                self._failed.popitem(last=False)
        return render(
            outcome,
            call=call,
            profile=self.profile,
            previous=previous,
            verbosity=self.verbosity,
            templates=self.templates,
            tool=name,
            repairs=repairs,
            limit=self.limit,
            listed=self.listed,
        )

    def forget(self) -> None:
        """Forget all failures, as for a new conversation."""
        self._failed.clear()
