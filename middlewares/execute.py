"""Execute: runs the tool, and makes an Outcome of what it returns or raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

import attrs
from returns.result import Failure, Success

from ..base import timing
from ..base.event_loops import is_failure_of_body
from ..base.options import check_function, read_by_name, refuse
from ..base.setup_error import SetupError
from ..engine.call import Outcome, ValidCall
from ..engine.compose import Placement
from ..engine.errors import ERROR_TYPES, Crashed, ExecutionFailed, ToolError
from ..engine.guards import NotBegunError, enter, run_inside
from ..privacy import ForeignText, approved, check_foreign_text, withholds
from ..tools import Detector, Tool
from ..tools.error_tables import without_texts
from ..tools.returned import PLAIN_TYPES, is_container, is_nothing, open_containers

if TYPE_CHECKING:
    from ..executors import Executor

_RUN_ANY = ("loop", "thread")  # what runs any tool, and is made when the first one needs it


def _read_executors(executors: Mapping[str, Executor]) -> dict[str, Executor]:
    for name, executor in read_by_name("Execute", "executors", executors, "executors").items():
        _check_executor(f"executors[{name!r}]", executor)
    if "loop" in executors:
        raise SetupError("Execute: `executors` must not contain 'loop', which is always the caller's event loop")
    return dict(executors)


def _check_executor(option: str, executor: object) -> None:
    members = ("name", "announces_body", "run", "check_tool")
    if isinstance(executor, type) or not all(hasattr(executor, member) for member in members):
        refuse("Execute", option, "an instance of a class that inherits from Executor", executor)


@attrs.frozen
class Execute:
    """The end of a stack: asks the executor of the tool to run its body.

    A tool names its executor in ``run_in``. If it does not, an async tool runs in the loop and a sync one in a thread.
    Known from the start are ``"loop"``, ``"thread"`` and ``"process"``. An exception of the tool becomes a `Crashed`
    with the exception as its cause, which Classify reads.

    Args:
        executor: Runs all tools that do not say ``run_in``. Default None: the loop and threads do.
        executors: Further executors, by the names that tools use in ``run_in``. They may replace ``"thread"`` and
            ``"process"``, as in ``{"thread": Thread(8, max_abandoned=4)}``. Default: none.
        detect: Finds failures in what the tools return that have no ``detect=`` of their own, see
            `toolcall_pipeline.tools.detectors`. Default None: what they return is a success.
        foreign_text: As for `Classify`, for the texts that a ``detect`` finds.

    Raises:
        SetupError: An option holds something else than executors, or ``executors`` contains ``"loop"``. When the
            pipeline is built: a tool names an executor that is not known, or one that cannot run it. A tool that is
            registered later crashes instead, and does not run.
    """

    placement: ClassVar[Placement] = Placement(
        kind="execute",
        reason="the end: the tool itself",
        announces_body=True,
    )

    executor: Executor | None = None
    executors: dict[str, Executor] = attrs.field(
        factory=dict[str, Any], converter=_read_executors, kw_only=True, hash=False
    )

    detect: Detector | None = attrs.field(default=None, repr=False, kw_only=True)
    foreign_text: ForeignText = attrs.field(default="withhold", validator=check_foreign_text, kw_only=True)
    _is_straight: bool = attrs.field(init=False, repr=False, eq=False)  # whether a direct tool is called right here

    def __attrs_post_init__(self) -> None:
        if self.executor is not None:
            _check_executor("executor", self.executor)
        check_function("Execute", "detect", self.detect, optional=True)
        object.__setattr__(self, "_is_straight", self.executor is None and self.detect is None)

    @property
    def resources(self) -> tuple[Executor, ...]:
        """The executors, for ``async with pipeline``."""
        given = () if self.executor is None else (self.executor,)
        return (*given, *self.executors.values())

    def check_tool(self, tool: Tool[..., Any]) -> None:
        """Raise SetupError if the executor of the tool is not known, or cannot run it."""
        given = self.executor is not None and tool.anywhere
        if given or tool.run_in in self.executors or tool.run_in not in _RUN_ANY:
            self._get_executor(tool).check_tool(tool)

    async def __call__(self, call: ValidCall) -> Outcome:  # noqa: C901  # a call of a function costs what a branch does not
        """Run the body.

        Returns:
            Success with what the tool returned, or the Failure that it returned or that a ``detect`` found in it. A
            container of `returns` is opened, and each in it. An exception of the tool or of a detector is
            ``Failure(Crashed)``.
        """
        tool, guards = call.tool, call.guards
        if guards is not None and guards.board is not None and timing.now() >= guards.board.until:
            await guards.board.renew()  # here, for whoever begins the body may not let go of the event loop
        is_straight = self._is_straight and (tool.direct or tool.copies_direct)
        if not is_straight or (guards is not None and tool.effect != "read" and not guards.counts_effect_of(tool)):
            return await run_inside(self._run, call, announces_body=True)
        # As Loop does. Exactly one body runs here, so the outcome is its own.
        try:
            params = tool.copy_params(call.params) if tool.copies else call.params
            if guards is not None and (  # else `Guards.begin` has nothing to ask
                guards.lock is not None
                or guards.gate is None
                or guards.gate.closed
                or (guards.board is not None and timing.now() >= guards.board.until)
            ):
                guards.begin(call)
        except NotBegunError as exc:
            return exc.outcome
        except Exception as exc:  # noqa: BLE001  # an object in the params that cannot be copied
            return Failure(Crashed(exc))
        try:
            value: object = await tool.fn(**params)
            is_plain = type(value) in PLAIN_TYPES
            if not is_plain and is_container(value):
                value = await open_containers(value)
        except BaseException as exc:  # the border to the user's tool: it may raise anything
            if not is_failure_of_body(exc):
                if guards is not None:
                    guards.end(call)
                raise
            if guards is None:
                return Failure(Crashed(exc))  # in no variable: the traceback would hold itself
            guards.learn_raised(exc)
            return guards.conclude(call, Failure(Crashed(exc)))
        outcome = Success(value) if is_plain else _read_result(value, tool)
        return outcome if guards is None or guards.lock is None else guards.conclude(call, outcome)

    async def _run(self, call: ValidCall) -> Outcome:
        """Run the body in the executor of the tool."""
        tool = call.tool
        try:
            executor = self._get_executor(tool)
            if tool.copies:  # what the body does to them must reach neither the caller nor the next attempt
                call = call.with_params(tool.copy_params(call.params))
            if call.report is not None:
                call.report.executor = executor.name
            value = await (executor.run(call) if executor.announces_body else _run_unmarked(executor, call))
            if is_container(value):
                value = await open_containers(value)
            detect = tool.detect or self.detect
            if detect is not None:
                value = _apply_detector(detect, value, tool if withholds(tool, self.foreign_text) else None)
        except NotBegunError as exc:
            return exc.outcome
        except Exception as exc:  # noqa: BLE001  # the border to the user's tool, as above
            return self._read_raise(exc, call)
        except BaseException as exc:
            if not is_failure_of_body(exc):
                raise
            return self._read_raise(exc, call)
        outcome = _read_result(value, tool)
        if type(outcome) is Failure and type(error := outcome.failure()) is Crashed:
            return self._read_raise(error.cause, call)  # a thread gives a raise as a value
        return outcome

    def _read_raise(self, cause: BaseException | None, call: ValidCall) -> Outcome:
        """The failure that an exception of the body means by the tool's own ``errors=``, else a crash.

        They are asked here and not in Classify: the guards of the call read whether the body landed.
        """
        if call.guards is not None:
            call.guards.learn_raised(cause)
        crash = Crashed(cause)
        if call.tool.errors is None:
            return Failure(crash)
        from ..tools import classify_own

        return Failure(classify_own(crash, call.tool, self.foreign_text) or crash)

    def _get_executor(self, tool: Tool[..., Any]) -> Executor:
        if self.executor is not None and tool.anywhere:
            return self.executor
        executor = self.executors.get(tool.run_in)
        return self._add_built_in(tool) if executor is None else executor

    def _add_built_in(self, tool: Tool[..., Any]) -> Executor:
        """Make the executor that a tool is the first one to need: each is loaded only then."""
        from .. import executors

        if tool.run_in == "loop":
            made: Executor = executors.Loop()
        elif tool.run_in == "thread":
            made = executors.Thread()
        elif tool.run_in == "process":
            made = executors.get_default_process()
        else:
            known = ", ".join(sorted({*self.executors, *_RUN_ANY, "process"}))
            raise SetupError(f"{tool.name}: unknown executor {tool.run_in!r}; known: {known}")
        return self.executors.setdefault(tool.run_in, made)


async def _run_unmarked(executor: Executor, call: ValidCall) -> object:
    """Count the body as begun from here on, unless the executor has another one that says when it begins."""
    guards = call.guards
    if guards is None or guards.lock is None:
        if guards is not None:
            guards.begin(call)
        return await executor.run(call)
    entry, inside = enter(call, guards, announces_body=False)
    try:
        return await executor.run(inside)
    finally:
        entry.leave(None)  # what the outcome says of the body is read around this


def _read_result(value: Any, tool: Tool[..., Any]) -> Outcome:
    """Make an Outcome of a value whose containers are opened.

    In a Failure, text is its author's, and an exception is as if it were raised. Anything else, such as an error of the
    author's own, is a crash: only a detector knows what may be said of it.
    """
    kind = type(cast("object", value))
    if kind is Success:
        return cast("Outcome", value)
    if kind is not Failure:
        return Failure(tool.describe_nothing()) if is_nothing(value) and tool.nothing is not None else _succeed(value)
    error = value.failure()
    if type(error) in ERROR_TYPES:
        return cast("Outcome", value)
    if isinstance(error, str):
        return Failure(ExecutionFailed(approved(error)))
    if isinstance(error, BaseException):
        return Failure(Crashed(error))
    return Failure(Crashed(TypeError(f"the tool returned a Failure of {type(error).__name__}, which is no ToolError")))


def _succeed(value: object) -> Outcome:
    return Success(None if is_nothing(value) else value)


def _apply_detector(
    detect: Callable[[object], ToolError | None], value: object, secretive: Tool[..., Any] | None
) -> object:
    """Look for a failure in what the tool returned, or in what its Success holds; of its Failure, for what it means.

    ``secretive`` is the tool, if no text of a failure that was found may be told.
    """
    kind: type[Any] = type(value)
    if kind is Failure:
        held = cast("Any", value).failure()
        found = None if isinstance(held, (str, BaseException)) or type(held) in ERROR_TYPES else detect(held)
        return value if found is None else Failure(_tell(found, secretive))
    if is_nothing(value):
        return value
    inner: Any = cast("Any", value).unwrap() if kind is Success else value
    error: Any = detect(inner)
    if error is None:
        unwrap = getattr(detect, "unwrap", None)  # `ReturnedError` has one
        return value if unwrap is None else Success(unwrap(inner))
    if type(error) in ERROR_TYPES:
        return Failure(_tell(error, secretive))
    raise TypeError(f"`detect` must return a ToolError or None, not {type(error).__name__}")


def _tell(error: ToolError, secretive: Tool[..., Any] | None) -> ToolError:
    return error if secretive is None else without_texts(error, secretive.name)
