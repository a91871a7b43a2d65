"""Pipeline: what users hold. A call goes in as the model wrote it, and an Outcome comes out, always."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from returns.result import Failure

from ..call import Call, Outcome, ResolvedCall
from ..errors import SetupError
from ..introspection import bind_by_name
from ..portal import PORTAL
from ..report import CallReport
from ..tools.definition import Tool
from ..tools.registry import ToolRegistry
from .description import describe
from .order import check_order
from .runner import Runner
from .stage import Stage, ToolChecker
from .stage_list import StageList

P = ParamSpec("P")
T = TypeVar("T")


class Pipeline(StageList):
    """Runs calls through its stages. Never raises, except what is no ``Exception``: cancellation passes through.

    A pipeline is made by `Stack.end`, by `middlewares.standard`, or from another pipeline with ``before``, ``after``,
    ``replace`` and ``without``. It is compiled once and may be shared.
    """

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        check_order(stages)
        self.entries = stages
        held = (stage.obj.registry for stage in stages if stage.placement.owns_registry)
        self.registries: tuple[ToolRegistry, ...] = tuple(dict.fromkeys(held))  # where it finds its tools
        end = stages[-1].obj
        if isinstance(end, ToolChecker):
            for tool in (tool for registry in self.registries for tool in registry):
                end.check_tool(tool)
        self._runner = Runner(stages, self.registries)
        self._run: Callable[..., Coroutine[Any, Any, Outcome]] = self._runner.run

    def __call__(self, call: Call, /) -> Coroutine[Any, Any, Outcome]:
        """Run one call."""
        return self._run(call)

    def call(
        self,
        name: str,
        arguments: Mapping[str, object] | str | None = None,
        *,
        id: str = "",  # noqa: A002  # the providers' word
        principal: str = "",
        deps: object = None,
        finish_reason: str | None = None,
        timeout: float | None = None,  # a field of the call
    ) -> Coroutine[Any, Any, Outcome]:
        """Run one call as the model wrote it. The parameters are the fields of `Call`."""
        return self._run(Call(name, arguments, id, principal, deps, finish_reason, timeout))

    def run(self, tool: Tool[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Outcome[T]]:
        """Run a tool of one's own, with arguments that the type checkers have seen.

        Raises:
            SetupError: No registry of this pipeline holds this very tool under its name, or the arguments do not fit
                the parameters of the function.
        """
        return cast("Coroutine[Any, Any, Outcome[T]]", self._run(self._make_call(tool, args, kwargs)))

    def _make_call(self, tool: Tool[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The call of `run`. Raises SetupError as that does."""
        held = (registry.tools.get(tool.name) is tool for registry in self.registries)
        if self.registries and not any(held):
            raise SetupError(f"{tool.name!r} ({tool.origin}) is not the tool of that name in this pipeline's registry")
        try:
            arguments = bind_by_name(tool.fn, int(tool.context), args, kwargs)
        except TypeError as exc:
            raise SetupError(f"{tool.name}: {exc}") from exc
        return Call(tool.name, arguments)

    def call_sync(
        self,
        name: str,
        arguments: Mapping[str, object] | str | None = None,
        *,
        id: str = "",  # noqa: A002  # the providers' word
        principal: str = "",
        deps: object = None,
        finish_reason: str | None = None,
        timeout: float | None = None,
    ) -> Outcome:
        """`call` for code without an event loop: it waits for the outcome, in any thread.

        All such calls of a process run in one event loop of asyncio, in a thread of its own, with the context variables
        of their caller. Where a loop runs already, as in a notebook, this call blocks it. KeyboardInterrupt cancels the
        call.

        Raises:
            SetupError: The caller is an async tool that was itself called so; it has to await `call`.
        """
        return PORTAL.run(self._run, Call(name, arguments, id, principal, deps, finish_reason, timeout))

    def run_sync(self, tool: Tool[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Outcome[T]:
        """`run` for code without an event loop; see `call_sync`.

        Raises:
            SetupError: As `run` and `call_sync`.
        """
        return cast("Outcome[T]", PORTAL.run(self._run, self._make_call(tool, args, kwargs)))

    async def report(self, call: Call, /) -> CallReport:
        """Run one call and return all that happened to it. The call is traced as well."""
        reports: list[CallReport] = []
        outcome = await self._run(call, reports)
        return reports[0] if reports else CallReport(call, outcome=outcome)  # the observer itself has a bug

    def resolve(self, call: Call, /) -> ResolvedCall | Failure[Any] | None:
        """The call with its tool, or why it has none; nothing is run. None where no check of this pipeline finds tools.

        Only the check that finds the tool is asked, so the tool may be closed.
        """
        return self._runner.resolve(call)

    def tool_of(self, name: object) -> Tool[..., Any] | None:
        """The tool of exactly that name in one of the registries, or None."""
        return self._runner.tool_of(name)

    def describe(self) -> str:
        """The stages, outermost first, one line each, with the reason why each stands where it does."""
        return describe(self.entries)

    def __repr__(self) -> str:
        return f"<Pipeline {' > '.join(self.stages)}>"
