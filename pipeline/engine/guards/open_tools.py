"""OpenTools: the guard against a tool that was closed while the call waited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

import attrs
from returns.result import Failure

from ..errors import Unavailable
from .guard import Guard, tool_of

if TYPE_CHECKING:
    from ..call import Call, Outcome


class Gate(Protocol):
    """A list of the tools that are closed, with the reasons: a registry."""

    @property
    def closed(self) -> Mapping[str, Unavailable]:
        """By the name of the tool. It is false in the common case that none is closed."""
        ...


@attrs.define(eq=False)
class OpenTools(Guard):
    """Refuses a tool that was closed after `Available` let the call pass, as while it waited in a queue.

    Args:
        gates: The registries that `Available` asks.
    """

    needs_params: ClassVar[bool] = False

    gates: Sequence[Gate]

    def refuse(self, call: Call) -> Outcome | None:
        """Unavailable with the reason, if the tool is closed now."""
        for gate in self.gates:
            closed = gate.closed
            tool = tool_of(call) if closed else None
            if tool is not None and (reason := closed.get(tool.name)) is not None:
                return Failure(reason)
        return None
