"""render: makes the text for the model from an outcome or an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from returns.result import Failure, Success

from ..call import Outcome
from ..errors import Crashed, Repair, SetupError, ToolError
from ..privacy import PublicText
from .default import default_text
from .text import replace_surrogates, truncate
from .values import as_text, elide_middle
from .verbosity import NORMAL

if TYPE_CHECKING:
    from .profile import Profile
    from .templates import Texts

_LIMIT = 100_000  # characters: a longer value would fill the context of many models
_MAX_ERROR = NORMAL.characters  # of the text of a failure


def render(
    outcome: Outcome[Any] | ToolError,
    *,
    profile: str | Profile = "default",
    previous: ToolError | None = None,
    verbosity: str = "normal",
    templates: Mapping[str, Texts] | None = None,
    tool: str | None = None,
    repairs: Sequence[Repair] = (),
    limit: int | None = _LIMIT,
) -> PublicText:
    """Put an outcome or an error into words for the model.

    Never raises for what a tool returned or failed with, and the text is never empty. The text of a failure is bounded
    by the verbosity and holds nothing private. The text of a success is the value: text as it is, anything else as
    JSON.

    Args:
        outcome: A ``Success``, a ``Failure``, or the error of a failure.
        profile: ``default``, ``llmproc``, ``rfc015``, ``structured``, ``agentopia``, ``invalid_tool`` or a `Profile`.
        previous: The error of the last call of the same tool. The text then says what changed since. Default: none.
        verbosity: ``terse`` (one line for each problem, about 250 tokens), ``normal`` (with one line of help, 2,000
            tokens) or ``full`` (with details and a valid example, 4,000 tokens). A token counts as four characters.
        templates: Texts that replace those of the profile; `pipeline.messages.templates` describes the keys.
        tool: The name of the tool, for texts that contain it. Not needed where the error holds the name.
        repairs: The repairs of a `CallReport`, which a line at the end then describes. Default: no such line.
        limit: Characters of a value. A longer one is cut in the middle, and the text says how many characters are left
            out. Default 100,000. None: no limit.

    Raises:
        SetupError: The profile or the verbosity is not known, or a template is not valid.
    """
    if type(outcome) is Success:
        return _render_value(cast("Any", outcome).unwrap(), profile, verbosity, templates, repairs, limit)
    error: ToolError = outcome.failure() if type(outcome) is Failure else outcome
    try:
        return _render_failure(error, profile, previous, verbosity, templates, tool, repairs)
    except SetupError:
        raise
    except Exception:  # noqa: BLE001  # a field of the error is of another type than it declares
        return _render_odd(error, profile, verbosity, templates, tool)


def _render_odd(
    error: ToolError, profile: str | Profile, verbosity: str, templates: Mapping[str, Texts] | None, tool: str | None
) -> PublicText:
    from .odd_errors import put_right

    try:
        return _render_error(put_right(error), profile, None, verbosity, templates, tool)
    except Exception:  # noqa: BLE001  # it is hostile: nothing of it is read
        return _render_error(Crashed(), profile, None, verbosity, None, None)


def _render_failure(
    error: ToolError,
    profile: str | Profile,
    previous: ToolError | None,
    verbosity: str,
    templates: Mapping[str, Texts] | None,
    tool: str | None,
    repairs: Sequence[Repair],
) -> PublicText:
    text = _render_error(error, profile, previous, verbosity, templates, tool)
    if not repairs:
        return text
    from .assembly import append_note  # 10 ms, and most texts do without

    return append_note(text, repairs, profile)


def _render_error(
    error: ToolError,
    profile: str | Profile,
    previous: ToolError | None,
    verbosity: str,
    templates: Mapping[str, Texts] | None,
    tool: str | None,
) -> PublicText:
    if previous is None and templates is None and profile == "default" and verbosity == "normal":
        return PublicText(replace_surrogates(truncate(default_text(error), _MAX_ERROR)))
    from .assembly import build_text

    return build_text(error, profile, previous, verbosity, templates, tool)


def _render_value(
    value: object,
    profile: str | Profile,
    verbosity: str,
    templates: Mapping[str, Texts] | None,
    repairs: Sequence[Repair],
    limit: int | None,
) -> PublicText:
    if profile == "default" and verbosity == "normal" and templates is None and not repairs:
        return PublicText(replace_surrogates(elide_middle(as_text(value), limit)))
    from .assembly import build_value_text

    return build_value_text(value, profile, verbosity, templates, repairs, limit)
