"""`tell`: what a model is told of an outcome: an error's text, or the value as text or JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from returns.result import Failure

from ..call import Outcome
from ..errors import Repair, ToolError
from ..public import PublicText
from .saying import say
from .values import as_text, shortened
from .words import sendable

if TYPE_CHECKING:
    from .profile import Profile
    from .templates import Words

_LIMIT = 100_000  # characters: a value that is longer crowds out all else that a model reads


def tell(
    outcome: Outcome[Any],
    *,
    profile: str | Profile = "default",
    previous: ToolError | None = None,
    verbosity: str = "normal",
    templates: Mapping[str, Words] | None = None,
    tool: str | None = None,
    repairs: Sequence[Repair] = (),
    limit: int | None = _LIMIT,
) -> PublicText:
    """The text for the model; never empty, and never raises for what a tool returned.

    Of a failure it is what `say` says, to which the options but the last two belong. Of a success it is the value; of
    one longer than ``limit`` characters head and tail, with how much was left out between (None: all of it).
    ``repairs``, as a `CallReport` has them, are told in a line at the end: nothing is told of them by itself.
    Raises SetupError as `say` does.
    """
    if type(outcome) is Failure:
        error: ToolError = outcome.failure()
        said = say(error, profile=profile, previous=previous, verbosity=verbosity, templates=templates, tool=tool)
        if not repairs:
            return said
        from .telling import noted

        return noted(said, repairs, profile)
    value = cast("Any", outcome).unwrap()
    if profile == "default" and verbosity == "normal" and templates is None and not repairs:
        return PublicText(sendable(shortened(as_text(value), limit)))
    from .telling import success

    return success(value, profile, verbosity, templates, repairs, limit)
