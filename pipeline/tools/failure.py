"""ToolFailed: an exception whose text the model gets, since the tool's author approves it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, TypeAlias, cast

from ..base.foreign_values import or_default
from ..engine.errors import FailureDetails, Landed
from ..privacy import PublicText, approved

FailureKind: TypeAlias = Literal[
    "execution",
    "not_found",
    "permission",
    "configuration",
    "needs_input",
    "validation",
    "unavailable",
    "timeout",
    "transient",
]


class ToolFailed(Exception):  # noqa: N818  # it says what happened: "raise ToolFailed"
    """A failure with a text for the model, which the tool's author approves by raising it.

    All that is given reaches the model, in each kind and in each profile. A value of a wrong type does not fail: it is
    shown as text, or left out.

    Args:
        message: The text for the model.
        kind: The kind of error; the guide of ``pipeline/tools`` has an example of each. Another one
            counts as ``execution``, which the log says. Default ``execution``.
        parameter: The argument that caused the failure. Default None: no single one.
        constraint: The rule for that argument, such as "at most 100". Default None: not said.
        value: The value of that argument. Default None: not said.
        suggestion: The next step, for the model. Default None: none.
        details: Further facts by name, such as ``{"limit": 100}``. Default None: none.
        retry_after: Seconds until another attempt makes sense. The kinds ``timeout`` and ``transient`` are not repeated
            earlier. Default None: not known.
        landed: Whether the side effect happened. Default None: not known, so a mutating tool is not called again.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = "execution",
        parameter: str | None = None,
        constraint: str | None = None,
        value: object = None,
        suggestion: str | None = None,
        details: Mapping[str, object] | None = None,
        retry_after: float | None = None,
        landed: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind: FailureKind = kind
        self.retry_after = as_seconds(retry_after)
        self.details = FailureDetails(
            as_public(parameter),
            as_public(suggestion),
            as_public(constraint),
            _as_plain(value),
            self.retry_after,
            _read_names(details) or {},
        )
        self.landed: Landed = "maybe" if landed is None else "yes" if landed else "no"


@or_default(None)
def as_public(value: object) -> PublicText | None:
    """Convert an author's value to text; None for None, and for a value that has no text. Never raises."""
    if value is None:
        return None
    return approved(value if type(value) is str else str(value))


@or_default(None)
def as_seconds(value: object) -> float | None:
    """Return an author's value as seconds; None for anything but a number ≥ 0. Never raises."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return value if isfinite(value) and value >= 0 else None


@or_default(None)
def _read_names(details: object) -> dict[str, object]:
    return {str(name): _as_plain(value) for name, value in cast("Mapping[Any, object]", details or {}).items()}


def _as_plain(value: object) -> object:
    """Copy a value as JSON, so that it can be pickled and does not change."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    from ..messages.values import as_json

    return json.loads(as_json(value))
