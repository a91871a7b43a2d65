"""Available: refuses the call of a tool that is closed now."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import attrs
from returns.result import Failure

from ..base.options import is_type
from ..engine.call import ResolvedCall
from ..engine.compose import Placement
from ..engine.errors import Unavailable
from ..tools import ToolView

R = TypeVar("R", bound=ResolvedCall)


@attrs.frozen
class Available:
    """A check that refuses closed tools.

    It asks the same gate as ``definitions()`` and the suggestions: a model is never offered what this check refuses.

    Args:
        registry: Its ``closed`` says which tools are closed, and why.

    Raises:
        SetupError: ``registry`` is not a ToolRegistry or a view of one.
    """

    placement: ClassVar[Placement] = Placement(
        kind="available",
        reason="before validate: the model should not correct arguments for a closed tool",
        decides=("disabled", "paused"),
        owns_registry=True,
    )

    registry: ToolView = attrs.field(validator=is_type(ToolView, name="ToolRegistry"))

    def __call__(self, call: R) -> R | Failure[Unavailable]:
        """The same call; or Unavailable, with the reason why its tool is closed."""
        registry = self.registry
        if registry.closed and (why := registry.find_closed(call.tool.name, call.principal)) is not None:
            return Failure(why)
        return call
