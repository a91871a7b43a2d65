"""The standard stack, and why it is in this order."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..base.options import check_function, check_number, check_type
from ..engine.compose import Pipeline, Stack
from ..engine.compose.promises import Promises
from ..engine.compose.stage_list import make_stage
from ..messages import Wording
from ..parameters import Limits
from ..privacy import ForeignText, Redact
from ..tools import Detector, Errors, ToolView
from .available import Available
from .classify import Classify
from .execute import Execute
from .resolve import Resolve
from .retry import Retry
from .trace import Trace
from .validate import Validate

if TYPE_CHECKING:
    from ..executors import Executor
    from ..journal import Journal
    from ..policies import RelayPolicy, RuleSet
    from ..stores import Store
    from .check_result import CheckResult
    from .policy import Policy


_ATTEMPTS = 3
_SOURCES = {  # of the stages that most pipelines lack
    "timeout": "`standard(tools, timeout=…)`",
    "ledger": "`standard(tools, store=…)`",
    "switchboard": "`standard(tools, store=…)`",
    "policy": "the rules of `standard(tools, policy=…)`",
    "dry_run": "a rule of `standard(tools, policy=…)` that says `dry_run`",
    "approve": "a rule of `standard(tools, policy=…)` that says `approve`",
    "quota_1": "a budget of `standard(tools, policy=…)`",
    "check_result": "a tool that says `ensure=` or `output_schema=`",
}


class _NotGiven:
    def __repr__(self) -> str:
        return "<as by default>"


_NOT_GIVEN: Any = _NotGiven()  # None is a value as well


def standard(
    tools: ToolView,
    *,
    timeout: float | None = _NOT_GIVEN,
    attempts: int = _NOT_GIVEN,
    canonical_names: bool = _NOT_GIVEN,
    listed: int = 20,
    limits: Limits | None = _NOT_GIVEN,
    executor: Executor | None = None,
    executors: Mapping[str, Executor] | None = None,
    redact: Redact | None = _NOT_GIVEN,
    errors: Errors | None = None,
    detect: Detector | None = None,
    wording: Wording | None = _NOT_GIVEN,
    store: Store | None = None,
    policy: str | PathLike[str] | RuleSet | Policy | RelayPolicy | None = None,
    journal: str | PathLike[str] | Journal | None = None,
    foreign_text: ForeignText = "withhold",
    trace: Trace | None = None,
) -> Pipeline:
    """Build a pipeline of the seven standard stages.

    A tool of the registry that has ``output_schema=`` or ``ensure=`` adds the stage ``check_result`` inside of
    ``retry``, also one that is registered later.

    Args:
        tools: The registry of the pipeline's tools.
        timeout: Seconds for each attempt, > 0; it adds the stage ``timeout`` inside of ``retry``. Default None: no
            such stage, and no limit but the ``timeout=`` of a tool itself.
        attempts: Attempts of a call, the first one included, ≥ 1. Default 3; 1: nothing is repeated.
        canonical_names: See `Resolve`. Default False.
        listed: Tools that the error for an unknown name lists, ≥ 0, see `Resolve`. Default 20.
        limits: How large the arguments of a call may be, see `Limits`. Default None: `Limits()`.
        executor: Runs all tools that do not say ``run_in``, see `Execute`. Default None: the event loop and threads.
        executors: Further executors by name, see `Execute`. Default None: none.
        redact: Changes each value that is to be recorded, see `Trace`. It stays whatever becomes of the stage
            ``trace``, whose own ``redact`` comes after it. Default None: none is changed.
        errors: The meaning of exceptions of the tools, such as ``{PaymentDown: "transient"}``, see `Classify`. Default
            None: the built-in table alone.
        detect: Finds failures in what the tools return that have no ``detect=`` of their own, such as
            `returned_error`, see `Execute`. Default None: what they return is a success.
        wording: How the texts for the model are worded, wherever they are read. Default None: as by default.
        store: Where it is kept what began and how it ended, such as ``stores.SQLite("calls.db")``; it adds the stage
            ``ledger`` outside of ``retry``, see `Ledger`, and ``switchboard``, see `Switchboard`. Default None: a
            conversation is remembered in this process.
        policy: The path of a policy file, its rules, or the stage, as ``Policy(path, reload=True)``. Rules add the
            stage ``policy`` after ``validate``, and ``dry_run`` and ``approve`` if one of them says so; the latter
            needs ``store``. Each budget adds a `Quota`. Other options of the file count where they are not given here,
            also as None. Default None: no such stage.
        journal: The path of a file that keeps the report of each call, or a `Journal`. It stays whatever becomes of
            the stage ``trace``. Default None: none.
        foreign_text: What becomes of the texts of exceptions and of found failures of a tool that declares secrets, see
            `Classify`. Default ``"withhold"``: they are recorded nowhere; ``"mask"``: as of any tool, with the secrets
            masked as they are written.
        trace: The observer, such as ``Trace(content=True)``. Default None: `Trace()`.

    Raises:
        SetupError: An option is out of its range, or of another type; an entry of ``errors`` is not valid; or a tool of
            the registry names an executor that is not known, or one that cannot run it; or a rule of the policy is
            wrong, or names a tool that is not there.
    """
    check_type("standard", "tools", tools, ToolView, name="ToolRegistry")
    check_type("standard", "trace", trace, Trace, optional=True)
    sinks, file = [], None
    if store is not None or policy is not None or journal is not None:
        from .standard_durable import list_sinks, read_policy_option  # most pipelines keep nothing, and load none of it

        sinks, file = list_sinks(journal), read_policy_option(policy)
    says = None if policy is file else file  # of rules from code it is the rules alone
    timeout = _or(timeout, None if says is None else says.timeout)
    check_number("standard", "timeout", timeout, above=0, optional=True, unit="seconds")
    attempts = _or(attempts, _ATTEMPTS if says is None else says.attempts)
    names = says is not None and "canonical_names" in says.given and says.canonical_names
    canonical_names = _or(canonical_names, names)
    limits = _or(limits, says.limits.of_arguments() if says is not None and "limits" in says.given else None)
    limits = Limits() if limits is None else limits
    if file is not None:
        file.check_tools(tools)
    redact = _or(redact, None if says is None else says.make_redact())
    wording = _or(wording, None if says is None else says.wording)
    stack = (
        Stack()
        .observe(Trace() if trace is None else trace)  # outermost: refused calls are recorded too
        .check(
            Resolve(tools, canonical_names=canonical_names, listed=listed, renames={} if file is None else file.renames)
        )
        .check(Available(tools))  # before validate: no correction of arguments for a closed tool
        .check(Validate(limits=limits))  # last of the checks: the stages after it need the params
        .wrap(Retry(attempts))  # inside of the checks: another attempt does not help a refused call
    )
    # Inside of retry: each attempt has its own limit, and a hanging first one leaves time for the next.
    if timeout is not None:
        from .timeout import Timeout

        stack = stack.wrap(Timeout(timeout))
    check_function("standard", "redact", redact, optional=True)
    end = make_stage(
        Execute(
            executor,
            executors={} if executors is None else executors,
            detect=detect,
            foreign_text=foreign_text,
        ),
        "end",
    )
    # Classify is inside of retry, which reads the kind of error.
    entries = (*stack.wrap(Classify(errors, foreign_text=foreign_text)).entries, end)
    pipeline = Pipeline(entries, wording, Promises(redact, tuple(sinks), _check_results, _SOURCES))
    if store is not None or file is not None:
        from .standard_durable import add_stages

        pipeline = add_stages(pipeline, tools, store, file, policy)
    return pipeline


def _check_results() -> CheckResult:
    from .check_result import CheckResult  # most tools do not say what they return

    return CheckResult()


def _or(given: Any, default: object) -> Any:
    """The option as it was given, whatever its value; the default where it was not given."""
    return default if given is _NOT_GIVEN else given
