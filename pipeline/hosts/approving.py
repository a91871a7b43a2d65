"""Approvals at a framework: its own page asks the person, and the decision is bound by `Approve`.

The framework runs the tool again with the person's answer, perhaps in another process. That run is the same call, by
its id, its conversation and its arguments, so it finds the approval that waits; another call finds none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import attrs

from ..approvals import Approval, Approvals
from ..base.event_loops import PORTAL
from ..base.foreign_values import FaultBarrier
from ..base.setup_error import SetupError
from ..engine.call import Call, Outcome, ValidCall, is_failure
from ..engine.compose import Pipeline
from ..engine.errors import AwaitingApproval
from ..middlewares.approve import Approve
from ..privacy import get_logger
from ..stores import StoreError
from .framework import foresee
from .signed_calls import Signer

_UNNAMED = "the user of"  # begins the name of who decides, where a framework does not say it
_logger = get_logger()


@attrs.frozen
class Decision:
    """The answer of a person at a framework's page.

    Attributes:
        approved: Whether the call may run.
        message: Words for the model, or for the record. Default "": none.
        by: Who decided. Default: the framework does not say.
        always: Whether later calls of the tool, of the same principal and in the same conversation, may run as well.
            Default False.
    """

    approved: bool
    message: str = ""
    by: str = f"{_UNNAMED} the framework"
    always: bool = False


# Returns the person's answer, None while there is none, or raises what the framework waits by.
Ask: TypeAlias = Callable[[Approval], Decision | None]


@attrs.frozen
class HostApprovals:
    """Runs calls of exported tools, and has those that wait decided by the person at a framework, if that ``asks``.

    Raises:
        SetupError: It asks, and no stage of the pipeline does.
    """

    pipeline: Pipeline
    signer: Signer
    asks: bool = True
    _stage: Approve = attrs.field(init=False, eq=False, repr=False)  # only where it asks

    def __attrs_post_init__(self) -> None:
        if not self.asks:
            return
        stage = next((each.obj for each in self.pipeline.entries if each.placement.kind == "approve"), None)
        if stage is None:
            raise SetupError("export_tools: `ask` needs a pipeline with the stage Approve")
        object.__setattr__(self, "_stage", cast("Approve", stage))

    async def run(self, call: Call, context: object, ask: Ask) -> Outcome:
        """Run a call; one that waits is decided as ``ask`` says, and runs then.

        A decision is for the call that waited when the framework's page showed it: if an argument, the tool or the
        policy has changed since, the call that is asked about now is another one, and waits.
        """
        if not self.asks:
            return await self.signer.run(self.pipeline, call, context)
        is_known = await self.knows(call, context)
        outcome = await self.signer.run(self.pipeline, call, context)
        approval = await self._find(outcome)
        if approval is None or (decision := ask(approval)) is None or not is_known:
            return outcome
        if not await self._decide(approval, decision):
            return outcome
        return await self.signer.run(self.pipeline, call, context)

    def run_sync(self, call: Call, context: object, ask: Ask) -> Outcome:
        """As `run`, without an event loop; ``ask`` is called in the caller's thread."""
        if not self.asks:
            return self.signer.run_sync(self.pipeline, call, context)
        is_known: bool = PORTAL.run(self.knows, call, context)
        outcome = self.signer.run_sync(self.pipeline, call, context)
        approval: Approval | None = PORTAL.run(self._find, outcome)
        if approval is None or (decision := ask(approval)) is None or not is_known:
            return outcome
        if not PORTAL.run(self._decide, approval, decision):
            return outcome
        return self.signer.run_sync(self.pipeline, call, context)

    async def must_ask(self, call: Call, context: object) -> bool:
        """Whether a person has to decide before a call runs, which then waits. Nothing runs."""
        valid = await self._foresee(call, context)
        if valid is None:
            return False
        try:
            return await self._stage.request(valid) is not None
        except StoreError:
            return False  # the call itself is refused then

    async def knows(self, call: Call, context: object) -> bool:
        """Whether exactly this call waits already: then the answer of the framework's page is for it."""
        valid = await self._foresee(call, context)
        try:
            return valid is not None and await self._stage.find_request(valid) is not None
        except StoreError:
            return False  # as above

    async def _foresee(self, call: Call, context: object) -> ValidCall | None:
        # The call itself is refused where a function of the user's fails, or the store does not open.
        with FaultBarrier(_logger, "it is not known whether a call waits for a person"):
            await self.pipeline.ready()
            return foresee(self.pipeline, self.pipeline.ask(self.signer.sign(call, context)))
        return None

    async def _find(self, outcome: Outcome) -> Approval | None:
        if not is_failure(outcome) or not isinstance(waiting := outcome.failure(), AwaitingApproval):
            return None
        try:
            return await Approvals(self._stage.store).get(waiting.id)
        except StoreError:
            return None

    async def _decide(self, approval: Approval, decision: Decision) -> bool:
        approvals = Approvals(self._stage.store)
        decide = approvals.approve if decision.approved else approvals.reject
        # A framework shows its page to who asks, so with `four_eyes` whom it does not name may not decide.
        by = approval.principal if self._stage.four_eyes and decision.by.startswith(_UNNAMED) else decision.by
        try:
            decided = await decide(approval.id, by=by, message=decision.message)
            if decision.always and decided is not None and decided.state == "approved":
                who, where = approval.principal, approval.conversation
                await approvals.grant(tool=approval.tool, by=by, principal=who, conversation=where)
        except StoreError:
            _logger.warning("Tool %.200r: the decision on it could not be kept", approval.tool)
            return False
        return decided is not None and decided.state != "pending"
