"""Executor: what Execute asks to run a tool."""

from __future__ import annotations

from types import TracebackType
from typing import Any, ClassVar, Protocol, Self

from ..engine.call import ValidCall
from ..tools.definition import Tool


class Executor(Protocol):
    """Runs the bodies of tools. Inherit from it and write ``name`` and ``run``; the other methods have defaults.

    An executor that holds processes or connections is a context manager: ``async with Ray() as ray``. One that needs
    nothing opened also works without it.
    """

    name: ClassVar[str]  # for the attempts of a report, such as "thread"
    # Whether run calls `begin_body` and `end_body` itself. If not, a body counts as begun as soon as run is entered, so
    # a mutating call whose time is up in a queue of the executor is not retried.
    announces_body: ClassVar[bool] = False
    # Whether it works without `async with`. One that must be opened first says False: then a pipeline says so as well.
    opens_itself: ClassVar[bool] = True

    async def run(self, call: ValidCall) -> object:
        """Run the body of one call, between `begin_body` and `end_body` if the executor ``announces_body``.

        Args:
            call: The call, with its tool and with ``params``, the arguments of the tool by name.

        Returns:
            The value of the tool; or a ``Failure`` if the body did not run or was lost: ``Unavailable`` for an
            executor that is full, ``Transient`` for a lost worker, with ``landed="no"`` if the body never began.

        Raises:
            Exception: The tool raised it.
        """
        ...

    def check_tool(self, tool: Tool[..., Any]) -> None:
        """Raise SetupError for a tool that cannot run here, when the pipeline is built. By default, every tool can.

        Args:
            tool: A tool that this executor would have to run.

        Raises:
            SetupError: The tool cannot run here. The text names the tool and says why.
        """
        del tool

    async def aclose(self) -> None:
        """Release what the executor holds. Calls that still run are lost and return a ``Failure``. Default: nothing."""
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
