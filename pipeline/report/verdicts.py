"""What an outcome, or the answer of a check, says about the call: its error and the kind of that."""

from __future__ import annotations

from typing import Any, cast

from returns.result import Failure

CANCELLED = "cancelled"  # the verdict of a cancelled stage; it is no kind of error, for there is no Outcome


def error_of(verdict: Any) -> Any:
    """The error of a failed outcome or check; None for anything else."""
    return cast("Failure[Any]", verdict).failure() if type(verdict) is Failure else None


def kind_of(verdict: object) -> str | None:
    """The kind of error of a failed outcome or check; None for anything else."""
    return str(getattr(error_of(verdict), "kind", "internal")) if type(verdict) is Failure else None
