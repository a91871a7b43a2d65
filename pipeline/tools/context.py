"""ToolContext: what a tool may know of the call that it serves, unseen by the model."""

from __future__ import annotations

import attrs

from ..report import CallReport, Progress


@attrs.frozen
class ToolContext:
    """Injected as the first parameter of a tool made with ``context=True``."""

    call_id: str  # the provider's; may be empty
    attempt: int = 1  # from 1
    idempotency_key: str = ""  # made once per call, equal across its attempts
    deadline: float | None = None  # on time.monotonic(), seconds; None: no time limit
    principal: str = ""
    deps: object = attrs.field(default=None, repr=False)  # the caller's own object
    _report: CallReport | None = attrs.field(default=None, repr=False, eq=False)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell whoever listens how far the tool has come; with nobody listening it does nothing."""
        if self._report is not None:
            self._report.progress.append(Progress(done, total, message))
