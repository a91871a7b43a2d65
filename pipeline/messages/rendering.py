"""render: makes the text for the model from an outcome or an error; raise_for_error: an exception with that text."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from returns.result import Failure, Success

from ..base.provider_names import OfferedName, make_provider_name
from ..base.setup_error import SetupError
from ..engine.call import Call, Outcome
from ..engine.error_kind import ErrorKind
from ..engine.errors import NO_DETAILS, InvalidParams, OutcomeUnknown, Problem, Repair, ToolError, UnknownTool
from ..privacy import PublicText
from .default import default_text
from .text import replace_surrogates
from .values import as_text, elide_middle, write_data

if TYPE_CHECKING:
    from .templates import Texts
    from .wording import Profile, Wording

_LIMIT = 100_000  # characters: a longer value would fill the context of many models
_MAX_KEPT = 64  # texts of one tool
_MAX_KEPT_PATH = 100  # characters


def render(
    outcome: Outcome[Any] | ToolError,
    *,
    call: Call | None = None,
    wording: Wording | None = None,
    profile: str | Profile | None = None,
    previous: ToolError | None = None,
    verbosity: str | None = None,
    templates: Mapping[str, Texts] | None = None,
    tool: str | None = None,
    repairs: Sequence[Repair] = (),
    limit: int | None = _LIMIT,
    listed: int | None = None,
) -> PublicText:
    """Put an outcome or an error into words for the model.

    Never raises for what a tool returned or an error holds, and the text is never empty. The text of a failure is
    bounded by the verbosity and holds nothing private. The text of a success is the value: text as it is, anything else
    as JSON.

    Args:
        outcome: A ``Success``, a ``Failure``, or the error of a failure.
        call: The call, which knows the name of its tool, and its wording if an adapter was given the pipeline.
        wording: Another wording. Default None: the call's, else the one that the error carries from its pipeline, else
            the default. The options below win over each.
        profile: ``default``, ``llmproc``, ``rfc015``, ``structured``, ``agentopia``, ``invalid_tool`` or a `Profile`.
            Default None: as worded, else ``default``.
        previous: The error of the last call of the same tool. The text then says what changed since. Default None: as
            the error says, which a pipeline tells that in a conversation.
        verbosity: ``terse`` (one line for each problem, about 250 tokens), ``normal`` (with one line of help, 2,000
            tokens) or ``full`` (with details and the form of valid arguments, 4,000 tokens). A token counts as four
            characters. Default None: as worded, else ``normal``.
        templates: Texts that replace the profile's; `toolcall_pipeline.messages.templates` describes the keys.
        tool: The name of the tool, for texts that contain it. Not needed where the error holds the name.
        repairs: The repairs of a `CallReport`, which a line at the end then describes. Default: no such line.
        limit: Characters of a value. A longer one is cut in the middle, and the text says how many characters are left
            out. Default 100,000. None: no limit.
        listed: Tools in the list of a text for an unknown name, ≥ 0. Of more tools the text names the nearest ones and
            says how many there are. Default None: as many as the error holds, see ``listed=`` of `Resolve`.

    Raises:
        SetupError: The profile or the verbosity is not known, a template is not valid, ``listed`` is negative, or the
            outcome has to be awaited first.
    """
    wording = wording or _find_wording(outcome, call)
    if call is not None:
        tool = tool or read_tool_name(call)
    if wording is not None:
        profile = wording.profile if profile is None else profile
        verbosity = wording.verbosity if verbosity is None else verbosity
        templates = wording.templates if templates is None else templates
        listed = wording.listed if listed is None else listed
    profile = "default" if profile is None else profile
    verbosity = "normal" if verbosity is None else verbosity
    if listed is not None and listed < 0:
        raise SetupError(f"`listed` must be ≥ 0, not {listed}")
    if type(outcome) is Success:
        return _render_value(cast("Any", outcome).unwrap(), profile, verbosity, templates, repairs, limit)
    error: ToolError = outcome.failure() if type(outcome) is Failure else outcome
    if listed is not None and isinstance(error, UnknownTool) and len(error.available) > listed:
        error = error.changed(available=(), count=len(error.available))
    if isinstance(tool, OfferedName) and isinstance(error, OutcomeUnknown) and error.verify_with:
        error = error.changed(verify_with=make_provider_name(error.verify_with, tool.longest))
    try:
        text = _render_error(error, profile, previous, verbosity, templates, tool)
    except SetupError:
        raise
    except Exception:  # noqa: BLE001  # code that is not type-checked may put values of other types into fields
        text = _render_odd_error(error, profile, verbosity, templates, tool)
    if not repairs:
        return text
    from .assembly import append_note  # 10 ms, and most texts do without

    return append_note(text, repairs, profile)


def _find_wording(outcome: object, call: Call | None) -> Wording | None:
    if call is not None and call.wording is not None:
        return call.wording
    error: object = cast("Any", outcome).failure() if type(outcome) is Failure else outcome
    return error.wording if isinstance(error, ErrorKind) else None


def read_tool_name(call: Call) -> str:
    """The tool's own name if the call is resolved, else the requested name, which may be of any type."""
    name: object = call.name
    if type(name) is not OfferedName:  # which is the tool's own name as well, for the texts of its provider
        name = getattr(getattr(call, "tool", None), "name", name)
    return name if type(name) is OfferedName else str.__str__(name) if isinstance(name, str) else ""


def _render_error(
    error: ToolError,
    profile: str | Profile,
    previous: ToolError | None,
    verbosity: str,
    templates: Mapping[str, Texts] | None,
    tool: str | None,
) -> PublicText:
    is_plain = previous is None and templates is None and profile == "default" and verbosity == "normal"
    if is_plain and not error.says_more:
        return PublicText(replace_surrogates(default_text(error)))
    from .assembly import build_text

    return build_text(error, profile, previous, verbosity, templates, tool)


def render_failure(error: ToolError) -> PublicText:
    """`render` for the error of a failure, without any options. The text about one wrong type is made once a tool."""
    try:
        texts = _find_texts(error)
        if texts is None:
            return render(Failure(error)) if error.says_more else PublicText(replace_surrogates(default_text(error)))
        problem = cast("InvalidParams", error).problems[0]
        text = texts.get(problem)
        if text is None:
            text = PublicText(replace_surrogates(default_text(error)))
            if len(texts) < _MAX_KEPT and len(problem.path) < _MAX_KEPT_PATH:
                texts[problem] = text
    except Exception:  # noqa: BLE001  # as in `render`
        return render(Failure(error))
    return text


def _find_texts(error: ToolError) -> dict[Problem, PublicText] | None:
    """The texts about wrong types that a tool keeps, if the text about this error follows from its one problem."""
    if type(error) is not InvalidParams or error.details is not NO_DETAILS or len(error.problems) != 1:
        return None
    if error.says_more:
        return None
    return getattr(error.schema, "texts", None) if error.problems[0].rule == "type" else None


def _render_odd_error(
    error: ToolError, profile: str | Profile, verbosity: str, templates: Mapping[str, Texts] | None, tool: object
) -> PublicText:
    """Render an error that holds values of wrong types, without comparing it to another error."""
    if isinstance(cast("object", error), Awaitable):
        raise SetupError("render() takes an outcome, and this has to be awaited first: render(await pipeline(call))")
    from .odd_fields import coerce_error_fields

    try:
        name = tool if isinstance(tool, str) else None
        return _render_error(coerce_error_fields(error), profile, None, verbosity, templates, name)
    except SetupError:
        raise
    except Exception:  # noqa: BLE001  # it is not an error, or a class of the application
        return PublicText("An unexpected error occurred while executing this tool")


def render_data(value: object) -> PublicText:
    """`render` for a success whose value has no parts."""
    return PublicText(replace_surrogates(elide_middle(write_data(value), _LIMIT)))


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


T = TypeVar("T")


class ToolCallError(Exception):
    """A failed call, as an exception. Its text is the default text for the model.

    Args:
        error: The error of the failure; also an attribute.
    """

    def __init__(self, error: ToolError) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        return render(self.error)


def raise_for_error(outcome: Outcome[T]) -> T:
    """Return the value of a success.

    Raises:
        ToolCallError: The outcome is a failure. The private cause of the error, if any, is the ``__cause__``.
    """
    if type(outcome) is Failure:
        error: ToolError = outcome.failure()
        cause = getattr(error, "cause", None)
        raise ToolCallError(error) from (cause if isinstance(cause, BaseException) else None)
    return outcome.unwrap()
