"""The part of the standard stack that keeps something: its ledger, its policy, its journal.

It is a file of its own so that a pipeline without them loads no store, no approvals and no rules.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, cast

from ..base.options import refuse
from ..base.setup_error import SetupError
from ..engine.compose import Pipeline
from ..policies import Action, RelayPolicy, RuleSet, read_policy
from ..policies.rule_file import RuleFile
from ..stores import Store
from ..tools import ToolView
from .approve import Approve
from .dry_run import DryRun
from .ledger import Ledger
from .policy import Policy
from .quota import Quota
from .switchboard import Switchboard

if TYPE_CHECKING:
    from ..journal import Journal

_OF_A_SERVER = ("tools", "telemetry", "trust_annotations")


def read_policy_option(policy: object) -> RelayPolicy | None:
    """The options of a policy file, or of what was read from one; SetupError if it is wrong, or about a server."""
    if policy is None or isinstance(policy, RelayPolicy):
        return policy
    if isinstance(policy, Policy) and isinstance(policy.source, RuleFile):
        policy = policy.source.path
    elif isinstance(policy, (Policy, RuleSet)):
        return RelayPolicy(rules=policy if isinstance(policy, RuleSet) else policy.rules)
    if not isinstance(policy, (str, PathLike)):
        refuse("standard", "policy", "the path of a policy file, a RuleSet or a Policy", policy)
    made = read_policy(cast("str", policy))
    for name in _OF_A_SERVER:
        if name in made.given:
            raise SetupError(f"{made.locate(name)}`{name}` is for the server behind `toolcall proxy`")
    return made


def add_stages(
    pipeline: Pipeline, tools: ToolView, store: Store | None, file: RelayPolicy | None, policy: object
) -> Pipeline:
    """The pipeline with a ledger and a switchboard over the store, and the stages for a policy's rules and budgets.

    Raises:
        SetupError: A rule asks a person without a store.
    """
    if store is not None:
        pipeline = pipeline.before("retry", Ledger(store)).after("available", Switchboard(store))
    if file is None:
        return pipeline
    innermost = "retry" if store is None else "ledger"
    for number, budget in enumerate(file.budgets):
        quota = Quota(budget.calls, budget.per, window=budget.window, store=store)
        pipeline = pipeline.before(innermost, quota, name=f"quota_{number + 1}")
    if file.rules is None:
        return pipeline
    stage = policy if isinstance(policy, Policy) else Policy(file.rules)
    if isinstance(stage.source, RuleFile):  # it may ask for each stage that the pipeline can have
        further: tuple[Action, ...] = ("dry_run",) if store is None else ("dry_run", "approve")
        stage = stage.widened(tools, further)
    actions = stage.placement.needs.keys() | stage.rules.actions
    if "approve" in actions:
        if store is None:
            raise SetupError("standard: a rule of the policy says `approve`, which needs `store=` to keep what waits")
        pipeline = pipeline.before("quota_1" if file.budgets else innermost, Approve(store, stage.source))
    if "dry_run" in actions:
        pipeline = pipeline.after("validate", DryRun(stage.source))
    return pipeline.after("validate", stage)


def list_sinks(journal: object) -> list[Journal]:
    """The journal as the sinks of Trace; [] without one. SetupError if it is no journal."""
    if journal is None:
        return []
    from ..journal import Journal, get_journal  # a store or a policy alone needs no journal

    if isinstance(journal, Journal):
        return [journal]
    if not isinstance(journal, (str, PathLike)):
        refuse("standard", "journal", "the path of a file or a Journal", journal)
    return [get_journal(cast("str", journal))]
