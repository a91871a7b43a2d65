"""Available: is the tool open right now? Before Validate: nobody should mend arguments for a closed tool."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import attrs
from returns.result import Failure

from pipeline import Placement, ResolvedCall, ToolRegistry, Unavailable

R = TypeVar("R", bound=ResolvedCall)


@attrs.frozen
class Available:
    """Asks the registry's gate, as ``definitions()`` and the suggestions do."""

    placement: ClassVar[Placement] = Placement(
        kind="available",
        reason="before validate: nobody should mend arguments for a closed tool",
        owns_registry=True,
    )

    registry: ToolRegistry

    def __call__(self, call: R) -> R | Failure[Unavailable]:
        """The same call, or why its tool is closed."""
        closed = self.registry.closed
        if closed and (why := closed.get(call.tool.name)) is not None:
            return Failure(why)
        return call
