"""Pipeline: what users hold. A call goes in as the model wrote it, and an Outcome comes out, always."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import partial
from time import time_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar, cast, overload

from returns.result import Failure

from ...base.event_loops import PORTAL
from ...base.introspection import bind_by_name
from ...base.options import check_type
from ...base.setup_error import SetupError
from ...messages.wording import Wording
from ...parameters import Given
from ...privacy import PublicText, approved, get_logger
from ...tools.definition import Tool, refuse_as_name
from ...tools.view import ToolView
from ..call import Call, Outcome, ResolvedCall, ValidCall
from ..errors import NeedsSetup, ToolError, Unavailable
from ..report import CallReport, LiveSink, notify
from .order import check_order
from .promises import Promises, has_check
from .resources import Lifetime, list_resources, needs_opening
from .runner import ReportRequest, Runner
from .stage import Stage, ToolChecker, describe
from .stage_list import StageList, check_stages
from .tool_names import check_tool_names, log_unknown_names

if TYPE_CHECKING:
    from returns.future import FutureResult
    from returns.result import Result

P = ParamSpec("P")
T = TypeVar("T")
Other = TypeVar("Other", bound="Pipeline")
_NO_SPAN = nullcontext()
_NO_PROMISES = Promises()
_logger = get_logger()
_MOST_WORDINGS: Final = 64


class Pipeline(StageList):
    """Runs calls through its stages. Never raises an ``Exception``; cancellation and KeyboardInterrupt pass through.

    A pipeline is made by `Stack.end`, by `toolcall_pipeline.middlewares.standard`, or from another pipeline with
    ``before``, ``after``, ``replace`` and ``without``. It is compiled once and may be shared.

    Stages and executors that are async context managers are opened at the first call in an event loop, and closed when
    that loop ends, by `aclose`, or by the end of ``async with pipeline:``. If one does not open, a call is
    `Unavailable`, or `NeedsSetup` where the set-up is wrong; `ready` and ``async with`` raise that.

    A pipeline that `with_` made says who asks, for calls that do not say it. It is one with the pipeline that it was
    made from: opened with it, with the same stages and what they remember. `worded` makes one with other texts that
    shares all of this, too; `remember_with` shares what conversations have failed with; an edit shares the stages.

    Attributes:
        registries: Where its stages find tools.
        resources: The stages and executors that ``async with`` opens, outermost first.
        wording: How the texts for the model are worded, as `Stack.end` was told. None: as by default.
        promises: What is redacted and who gets each report, whatever becomes of the stages.
    """

    def __init__(
        self, stages: tuple[Stage, ...], wording: Wording | None = None, promises: Promises = _NO_PROMISES
    ) -> None:
        check_stages("Pipeline", "stages", stages)
        check_type("Pipeline", "wording", wording, Wording, optional=True)
        check_type("Pipeline", "promises", promises, Promises)
        held = (stage.obj.registry for stage in stages if stage.placement.owns_registry)
        self.registries: tuple[ToolView, ...] = tuple(dict.fromkeys(held))  # where it finds its tools
        stages = promises.complete(stages, (tool for registry in self.registries for tool in registry))
        check_order(stages)
        self.wording, self.promises = wording, promises
        names_are_known = check_tool_names(stages, self.registries, wording)
        end = stages[-1].obj
        if isinstance(end, ToolChecker):
            for tool in (tool for registry in self.registries for tool in registry):
                end.check_tool(tool)
        for registry in self.registries:
            registry.compile()
        for stage in stages:
            if stage.placement.closes_tools:
                stage.obj.watch(self.registries)
        self.resources = (*promises.resources, *list_resources(stages))
        self._lifetime = Lifetime(self.resources)
        self._must_be_open = any(map(needs_opening, self.resources))
        self._names_are_known = names_are_known
        self.asks_people = any(stage.placement.kind == "approve" for stage in stages)
        self._run_with(Runner(stages, self.registries, wording, promises))
        self._base: Pipeline | None = None  # of a bound pipeline
        self._origin: Pipeline | None = None  # of one that is worded anew
        self._asker: tuple[str, object, str] = ("", None, "")  # principal, deps, conversation
        self._worded: dict[Wording, Pipeline] = {}  # what `with_` made of this one, without who asks

    @property
    def entries(self) -> tuple[Stage, ...]:
        """The stages themselves, outermost first; a tool that is registered later may add ``check_result``."""
        return self._runner.stages

    def _run_with(self, runner: Runner) -> None:
        self._runner = runner
        run: Callable[..., Coroutine[Any, Any, Outcome]] = self._run_opened if self._must_be_open else runner.run
        self._run: Callable[..., Coroutine[Any, Any, Outcome]]
        self._run = self._run_unbound = run if self._names_are_known else self._check_names_before(run)

    def _check_names_before(self, run: Callable[..., Coroutine[Any, Any, Outcome]]) -> Callable[..., Any]:
        """Run a call; before the first one with tools, log the names that no registry has by then."""

        def check(*given: Any) -> Coroutine[Any, Any, Outcome]:
            if self._run_unbound is check and log_unknown_names(self.entries, self.registries, self.wording):
                self._run_unbound = run
                if self._run is check:
                    self._run = run
            return run(*given)

        return check

    def with_(
        self, *, deps: object = None, principal: str = "", conversation: str = "", wording: Wording | None = None
    ) -> Self:
        """The same pipeline, bound to these: whatever runs a call through it, the call has them where it has none.

        What is not given here stays as this pipeline has it. ``before``, ``after``, ``replace`` and ``without`` of a
        bound pipeline are bound as well.

        Args:
            deps: The caller's own object, for the `ToolContext` of the tools. Default None: none.
            principal: Who asks. Default "": no principal.
            conversation: The thread, session or run. Default "": no conversation.
            wording: How the texts for the model are worded for who asks: fewer words, or another profile. Default None:
                as this pipeline words them.

        Raises:
            SetupError: ``principal`` or ``conversation`` is not a text, or ``wording`` no `Wording`.
        """
        check_type("with_", "principal", principal, str)
        check_type("with_", "conversation", conversation, str)
        before = self._asker
        asker = principal or before[0], before[1] if deps is None else deps, conversation or before[2]
        base = self.unbound if wording is None else self._find_worded(wording)
        bound: Self = cast("Self", copy(base))
        bound._base, bound._asker = base, asker
        bound._run = partial(_run_asked, bound._run_unbound, asker)
        return bound

    def _find_worded(self, wording: Wording) -> Pipeline:
        """The pipeline that `worded` makes, made once for each of the last wordings: it is compiled."""
        check_type("with_", "wording", wording, Wording)
        kept = self.unbound._worded  # noqa: SLF001  # of this very class
        made = kept.get(wording)
        if made is None:
            if len(kept) >= _MOST_WORDINGS:
                kept.clear()
            made = kept[wording] = self.unbound.worded(wording)
        return made

    @property
    def unbound(self) -> Pipeline:
        """The pipeline from which `with_` made this one; itself if it is not bound."""
        return self._base or self

    def ask(self, call: Call, /) -> Call:
        """The call as this pipeline runs it: with what `with_` said, where the call says nothing."""
        return call.asked_by(*self._asker)

    def bind_alike(self, other: Other, /) -> Other:
        """Another pipeline, bound as this one is."""
        principal, deps, conversation = self._asker
        return other if self._base is None else other.with_(deps=deps, principal=principal, conversation=conversation)

    def worded(self, wording: Wording, /) -> Self:
        """The same stages, and what they remember, with other texts for the model."""
        make: Any = type(self)
        made: Self = make(self.entries, wording, self.promises)
        made._origin = self  # a tool such as `batch` lives as long as the pipeline it is attached to
        made._lifetime, made._worded = self._lifetime, self._worded
        made.remember_with(self)
        return self.bind_alike(made)

    def remember_with(self, other: Pipeline, /) -> Self:
        """This pipeline, before its first call, with the memory of conversations that another one has.

        It knows what the other one's calls have failed with, and which of them run, also where its tools are others.
        A stage of ours that counts in this process goes on from the one of its name there, by its ``count_with``.
        """
        base = self.unbound
        theirs = {stage.name: stage.obj for stage in other.entries}
        for stage in base.entries:
            if (count_with := getattr(stage.obj, "count_with", None)) is not None:
                count_with(theirs.get(stage.name))
        base._run_with(  # noqa: SLF001  # of this very class
            Runner(base.entries, base.registries, base.wording, base.promises, other.unbound._runner)  # noqa: SLF001  # as above
        )
        return cast("Self", self.bind_alike(base))

    def _explain_missing(self, target: str) -> str:
        source = self.promises.sources.get(target)
        return "" if source is None else f". `{target}` comes with {source}"

    def _remake(self, entries: tuple[Stage, ...]) -> Self:
        make: Any = type(self)
        taken_out = has_check(self.entries) and not has_check(entries)
        promises = self.promises.without_check() if taken_out else self.promises
        made: Self = make(entries, self.wording, promises)
        return self.bind_alike(made)

    async def __aenter__(self) -> Self:
        """Open what the stages and executors hold, outermost first; see `resources`.

        Raises:
            SetupError: The pipeline is open already; or an option names a tool that no registry has.
            Exception: A stage raised it. Those that were opened before it are closed again.
        """
        check_tool_names(self.entries, self.registries, self.wording)
        await self._lifetime.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it again, innermost first; within 10 seconds if the task is cancelled."""
        await self._lifetime.leave(kind, exc, traceback)

    async def ready(self) -> None:
        """Open what the stages hold, as the first call would: for the start of a program, or a readiness probe.

        Raises:
            SetupError: A path, a password or a schema is wrong; or an option names a tool that no registry has.
            Exception: A stage raised it.
        """
        check_tool_names(self.entries, self.registries, self.wording)
        error = await self._lifetime.open()
        if error is not None:
            raise error

    async def aclose(self) -> None:
        """Close what the first call has opened, in each event loop. A later call opens it again."""
        if not self._must_be_open:
            await self._lifetime.open()  # what opens itself is told to close only if it was entered
        await self._lifetime.close()

    def __call__(self, call: Call, /) -> Coroutine[Any, Any, Outcome]:
        """Run one call.

        Raises:
            SetupError: Its name is a Tool, and not the name of one.
        """
        run = self._run
        if type(call) is Call and type(call.name) is not str:
            refuse_as_name(call.name)
        return run(call)

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
        conversation: str = "",
    ) -> Coroutine[Any, Any, Outcome]:
        """Run one call as the model wrote it. The parameters are the fields of `Call`.

        Raises:
            SetupError: ``name`` is a Tool, and not its name.
        """
        if type(name) is not str:
            refuse_as_name(name)
        return self._run(Call(name, arguments, id, principal, deps, finish_reason, timeout, conversation))

    def run(
        self, tool: Tool[P, T | Failure[Any]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, Outcome[T]]:
        """Run a tool of one's own, with arguments that the type checkers have seen.

        A value of the type of its parameter arrives as it is; another one is read as JSON, or refused.

        Raises:
            SetupError: It is not a tool, no registry of this pipeline holds this very tool under its name, or the
                arguments do not fit the parameters of the function.
        """
        return cast("Coroutine[Any, Any, Outcome[T]]", self._run(self._make_call(tool, args, kwargs)))

    @overload
    def future(
        self, tool: Tool[P, T | Failure[Any]], /, *args: P.args, **kwargs: P.kwargs
    ) -> FutureResult[T, ToolError]: ...
    @overload
    def future(
        self,
        name: str,
        arguments: Mapping[str, object] | str | None = None,
        /,
        *,
        id: str = ...,  # the providers' word
        timeout: float | None = ...,
    ) -> FutureResult[object, ToolError]: ...
    def future(self, tool: Any, /, *args: Any, **kwargs: Any) -> FutureResult[Any, ToolError]:
        """One call as a `FutureResult`, for railways of several calls: ``.bind``, ``.map``, ``.lash``, ``flow``.

        The call runs when the result is awaited, and once. Say with `with_` who asks.

        Args:
            tool: A tool of one's own, with its arguments as for `run`; or the name of a tool, with its arguments as for
                `call`, and ``id`` and ``timeout`` of the call.
            args: As above.
            kwargs: As above.

        Raises:
            SetupError: As `run` does, or as `call` does.
        """
        from returns.future import FutureResult  # 40 ms, and most programs do without

        run = self.call(tool, *args, **kwargs) if type(tool) is str else self.run(tool, *args, **kwargs)
        return FutureResult(cast("Coroutine[Any, Any, Result[Any, ToolError]]", run))

    def _make_call(self, tool: Tool[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The call of `run`. Raises SetupError as that does."""
        if not isinstance(cast("object", tool), Tool):
            raise SetupError(
                f"run() takes a tool, not {tool!r}; make one with @tools.tool, or use call(name, arguments)"
            )
        held = [registry.tools.get(tool.name) for registry in self.registries]
        if held and not any(each is tool or (each is not None and each.overrides is tool) for each in held):
            raise SetupError(f"{tool.name!r} ({tool.origin}) is not the tool of that name in this pipeline's registry")
        try:
            arguments = bind_by_name(tool.fn, int(tool.context), args, kwargs)
        except TypeError as exc:
            raise SetupError(f"{tool.name}: {exc}") from exc
        return Call(tool.name, Given(arguments))

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
        conversation: str = "",
    ) -> Outcome:
        """`call` for code without an event loop: it waits for the outcome, in any thread.

        All such calls of a process run in one event loop of asyncio, in a thread of its own, with the context variables
        of their caller. Where a loop runs already, as in a notebook, this call blocks it. KeyboardInterrupt cancels the
        call.

        Raises:
            SetupError: The caller is an async tool that was itself called so; it has to await `call`. Or as `call`.
        """
        if type(name) is not str:
            refuse_as_name(name)
        return PORTAL.run(self._run, Call(name, arguments, id, principal, deps, finish_reason, timeout, conversation))

    def run_sync(self, tool: Tool[P, T | Failure[Any]], /, *args: P.args, **kwargs: P.kwargs) -> Outcome[T]:
        """`run` for code without an event loop; see `call_sync`.

        Raises:
            SetupError: As `run` and `call_sync`.
        """
        return cast("Outcome[T]", PORTAL.run(self._run, self._make_call(tool, args, kwargs)))

    async def report(self, call: Call, /, *, listener: LiveSink | None = None) -> CallReport:
        """Run one call and return all that happened to it. The call is traced as well.

        Args:
            call: The call.
            listener: Receives the events of this call while it runs, as `toolcall_pipeline.telemetry.Events` does;
                beside the sinks of `Trace`, which receive those for all calls. Default None: no other listener.

        Raises:
            SetupError: The name of the call is a Tool, and not the name of one.
        """
        if type(call) is Call and type(call.name) is not str:
            refuse_as_name(call.name)
        request = ReportRequest(listener)
        outcome = await self._run(call, request)
        if request.report is not None:
            return request.report
        known = self.redact(call) if isinstance(cast("object", call), Call) else Call("")
        report = CallReport(known, started_at=time_ns(), outcome=outcome)  # not a call, or the observer has a bug
        if listener is not None:
            notify(listener.call_ends, report)
        return report

    async def resume(self, approval_id: str, /) -> Outcome:
        """Run the call that a person approved, once, through all stages; again, the same outcome.

        Args:
            approval_id: The id of an `AwaitingApproval`, see `Approvals`.

        Returns:
            The outcome of the call. It is AwaitingApproval until a decision is made, and again with another id if the
            tool would get other params than the person saw, or the version of the policy is another one; Denied if the
            call was rejected; and ResourceNotFound if the id is unknown, is of another caller, or it expired.

        Raises:
            SetupError: No stage of this pipeline asks for approval.
        """
        stage = next((each.obj for each in self.entries if each.placement.kind == "approve"), None)
        if stage is None:
            raise SetupError("resume: no stage of this pipeline asks for approval; add Approve(store, needs=…)")
        exc = await self._lifetime.open() if self._must_be_open else None
        if exc is not None:
            return Failure(_explain_closed("", exc))
        principal, _, conversation = self._asker
        call: Call | Outcome = await stage.find_call(approval_id, principal, conversation)
        return await self(call) if isinstance(call, Call) else call

    def redact(self, call: Call, /) -> Call:
        """The call as it may be recorded: without what its tool declares to be secret, and as `Trace` redacts it."""
        resolved = self.resolve(call)
        tool = resolved.tool if isinstance(resolved, ResolvedCall) else self.find(call.name)
        return self._runner.redaction.redact(call, tool).call

    def resolve(self, call: Call, /) -> ResolvedCall | Failure[Any] | None:
        """The call with its tool, or why it has none; nothing is run. None where no check of this pipeline finds tools.

        Only the check that finds the tool is asked, so the tool may be closed.
        """
        return self._runner.resolve(call)

    def validate(self, call: Call, /) -> ValidCall | Failure[Any] | None:
        """The call with its tool and its params, or why it has none: the checks for name and arguments; nothing is run.

        None where these checks are not those of `standard`. The tool may be closed.
        """
        found = call if isinstance(call, ResolvedCall) else self.resolve(call)
        if not isinstance(found, ResolvedCall):
            return found
        for stage in self.entries:
            if stage.role == "check" and stage.placement.kind == "validate":
                valid = stage.run(found)
                return cast("ValidCall | Failure[Any]", valid) if isinstance(valid, (ValidCall, Failure)) else None
        return None

    def find(self, name: object) -> Tool[..., Any] | None:
        """The tool of exactly that name in one of the registries, or None."""
        return self._runner.find(name)

    def begin_turn(self) -> AbstractContextManager[object]:
        """A block whose calls are one trace: under the span around it, else under one of its own if it is sampled.

        `gather` and `run_turn` enter it. `telemetry.agent` makes such a block with the name of an agent.
        """
        return self._runner.begin_turn() or _NO_SPAN

    def render(
        self, outcome: Outcome[Any] | ToolError, *, call: Call | None = None, previous: ToolError | None = None
    ) -> PublicText:
        """The text for the model, of a value too, as this pipeline words it; see `toolcall_pipeline.render`.

        Args:
            outcome: An outcome, or the error of a failure.
            call: The call, for the name of its tool. Default None: the error's own.
            previous: The error of the last call of the same tool. Default None: none.
        """
        from ...messages import render  # needs this module

        return render(outcome, call=call, wording=self.wording, previous=previous)

    def describe(self) -> str:
        """The stages, outermost first, one line each, with the reason why each stands where it does."""
        return describe(self.entries)

    async def _run_opened(self, call: Call, request: ReportRequest | None = None) -> Outcome:
        exc = await self._lifetime.open()
        if exc is None:
            return await self._runner.run(call, request)
        return await self._runner.refuse(call, _explain_closed(getattr(call, "name", ""), exc), request)

    def __repr__(self) -> str:
        return f"<Pipeline {' > '.join(self.stages)}>"


def _explain_closed(name: object, exc: Exception) -> ToolError:
    if isinstance(exc, SetupError):
        return NeedsSetup(approved("This tool"), cause=exc)
    _logger.error("A stage of the pipeline does not open: %s", type(exc).__name__, exc_info=exc)
    return Unavailable(name if isinstance(name, str) else "", "not_open")


def _run_asked(
    run: Callable[..., Coroutine[Any, Any, Outcome]],
    asker: tuple[str, object, str],
    call: Call,
    request: ReportRequest | None = None,
) -> Coroutine[Any, Any, Outcome]:
    """Run a call of a bound pipeline; no method, for a pipeline that holds its own would live until a collection."""
    if not isinstance(cast("object", call), Call):
        return run(call, request)
    return run(call.asked_by(*asker), request)
