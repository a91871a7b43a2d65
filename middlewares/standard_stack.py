"""The standard stack, and why it is in this order."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, cast

from ..base.options import check_number, check_type, refuse
from ..base.setup_error import SetupError
from ..engine.compose import Pipeline, Stack
from ..executors import Executor
from ..messages import Wording
from ..parameters import Limits
from ..policies import RelayPolicy, RuleSet, read_policy
from ..privacy import Redact
from ..stores import Store
from ..tools import Detector, Errors, ToolView
from .approve import Approve
from .available import Available
from .classify import Classify
from .dry_run import DryRun
from .execute import Execute
from .ledger import Ledger
from .policy import Policy
from .quota import Quota
from .resolve import Resolve
from .retry import Retry
from .timeout import Timeout
from .trace import Trace
from .validate import Validate

if TYPE_CHECKING:
    from ..journal import Journal


_ATTEMPTS = 3
_OF_A_SERVER = ("tools", "telemetry", "trust_annotations")


def standard(
    tools: ToolView,
    *,
    timeout: float | None = None,
    attempts: int = _ATTEMPTS,
    canonical_names: bool = False,
    listed: int = 20,
    limits: Limits | None = None,
    executor: Executor | None = None,
    executors: Mapping[str, Executor] | None = None,
    redact: Redact | None = None,
    errors: Errors | None = None,
    detect: Detector | None = None,
    wording: Wording | None = None,
    store: Store | None = None,
    policy: str | PathLike[str] | RuleSet | RelayPolicy | None = None,
    journal: str | PathLike[str] | Journal | None = None,
) -> Pipeline:
    """Build a pipeline of the seven standard stages.

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
        redact: Changes each value that is to be recorded, see `Trace`. Default None: none is changed.
        errors: The meaning of exceptions of the tools, such as ``{PaymentDown: "transient"}``, see `Classify`. Default
            None: the built-in table alone.
        detect: Finds failures in what the tools return that have no ``detect=`` of their own, such as
            `returned_error`, see `Execute`. Default None: what they return is a success.
        wording: How the texts for the model are worded, wherever they are read. Default None: as by default.
        store: Where it is kept what began and how it ended, such as ``stores.SQLite("calls.db")``; it adds the stage
            ``ledger`` outside of ``retry``, see `Ledger`. Default None: a conversation is remembered in this process.
        policy: The path of a policy file, or its rules. Rules add the stage ``policy`` after ``validate``, and
            ``dry_run`` and ``approve`` if one of them says so; the latter needs ``store``. Each budget adds a `Quota`.
            Other options of the file count where they are not given here. Default None: no such stage.
        journal: The path of a file that keeps the report of each call, or a `Journal`. Default None: none.

    Raises:
        SetupError: An option is out of its range, or of another type; an entry of ``errors`` is not valid; or a tool of
            the registry names an executor that is not known, or one that cannot run it; or a rule of the policy is
            wrong, or names a tool that is not there.
    """
    check_type("standard", "tools", tools, ToolView, name="ToolRegistry")
    check_number("standard", "timeout", timeout, above=0, optional=True, unit="seconds")
    file = _read_policy(policy)
    if file is not None and policy is not file:
        timeout = file.timeout if timeout is None else timeout
        attempts = file.attempts if attempts == _ATTEMPTS else attempts
        canonical_names = canonical_names or ("canonical_names" in file.given and file.canonical_names)
        limits = file.limits.of_arguments() if limits is None and "limits" in file.given else limits
        redact = file.make_redact() if redact is None else redact
        wording = file.wording if wording is None else wording
    limits = Limits() if limits is None else limits
    pipeline = (
        Stack()
        .observe(Trace(redact=redact, sinks=_list_sinks(journal)))  # outermost: refused calls are recorded too
        .check(
            Resolve(tools, canonical_names=canonical_names, listed=listed, renames={} if file is None else file.renames)
        )
        .check(Available(tools))  # before validate: no correction of arguments for a closed tool
        .check(Validate(limits=limits))  # last of the checks: the stages after it need the params
        .wrap(Retry(attempts))  # inside of the checks: another attempt does not help a refused call
        .wrap(Classify(errors))  # inside of retry, which reads the kind of error
        .end(Execute(executor, executors={} if executors is None else executors, detect=detect), wording=wording)
    )
    if store is not None:
        pipeline = pipeline.before("retry", Ledger(store))
    if file is not None:
        pipeline = _add_policy(pipeline, file, tools, store)
    # Inside of retry: each attempt has its own limit, and a hanging first one leaves time for the next.
    return pipeline if timeout is None else pipeline.after("retry", Timeout(timeout))


def _read_policy(policy: object) -> RelayPolicy | None:
    """The options of a policy file, or of what was read from one.

    Raises:
        SetupError: The file is wrong, or has an option about a server; or it is of another type.
    """
    if policy is None or isinstance(policy, RelayPolicy):
        return policy
    if isinstance(policy, RuleSet):
        return RelayPolicy(rules=policy)
    if not isinstance(policy, (str, PathLike)):
        refuse("standard", "policy", "the path of a policy file or a RuleSet", policy)
    made = read_policy(cast("str", policy))
    for name in _OF_A_SERVER:
        if name in made.given:
            raise SetupError(f"{made.locate(name)}`{name}` is for the server behind `toolcall proxy`")
    return made


def _add_policy(pipeline: Pipeline, file: RelayPolicy, tools: ToolView, store: Store | None) -> Pipeline:
    """The stages for the rules and the budgets of a policy.

    Raises:
        SetupError: A rule or a rename names a tool that is not there, or a rule asks a person without a store.
    """
    file.check_tools(tools)
    innermost = "retry" if store is None else "ledger"
    for number, budget in enumerate(file.budgets):
        quota = Quota(budget.calls, budget.per, window=budget.window, store=store)
        pipeline = pipeline.before(innermost, quota, name=f"quota_{number + 1}")
    if file.rules is None:
        return pipeline
    stage = Policy(file.rules)
    if "approve" in stage.rules.actions:
        if store is None:
            raise SetupError("standard: a rule of the policy says `approve`, which needs `store=` to keep what waits")
        pipeline = pipeline.before("quota_1" if file.budgets else innermost, Approve(store, stage.rules))
    if "dry_run" in stage.rules.actions:
        pipeline = pipeline.after("validate", DryRun(stage.rules))
    return pipeline.after("validate", stage)


def _list_sinks(journal: object) -> list[Journal]:
    if journal is None:
        return []
    from ..journal import Journal, get_journal  # with SQLite; most pipelines do without

    if isinstance(journal, Journal):
        return [journal]
    if not isinstance(journal, (str, PathLike)):
        refuse("standard", "journal", "the path of a file or a Journal", journal)
    return [get_journal(cast("str", journal))]
