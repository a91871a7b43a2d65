"""Wording: how the texts for the model are worded. Profile chooses the words, Verbosity the amount."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import attrs

from ..base.options import check_count
from ..base.setup_error import SetupError

if TYPE_CHECKING:
    from .templates import Templates, Texts

T = TypeVar("T")
CHARACTERS_PER_TOKEN = 4  # the usual estimate for English


class Verbosity(NamedTuple):
    """The length of a text for the model."""

    name: str
    tokens: int  # of the whole text, of `CHARACTERS_PER_TOKEN` each
    max_problems: int  # of one call that are shown: a list of a thousand wrong items has one cause
    max_expected: int  # characters that describe the expected value of one parameter
    hints: bool  # a line of help for each problem, and the form of valid arguments for missing ones
    details: bool  # all further details, and that form for any wrong parameter

    @property
    def characters(self) -> int:
        """The budget of the whole text, in characters."""
        return self.tokens * CHARACTERS_PER_TOKEN


TERSE = Verbosity("terse", 250, 20, 300, hints=False, details=False)
NORMAL = Verbosity("normal", 2_000, 20, 1_000, hints=True, details=False)
FULL = Verbosity("full", 4_000, 50, 2_000, hints=True, details=True)
_VERBOSITIES = {each.name: each for each in (TERSE, NORMAL, FULL)}


def get_verbosity(name: str) -> Verbosity:
    """Return the verbosity of that name; SetupError if there is none."""
    found = _VERBOSITIES.get(name) if isinstance(cast("object", name), str) else None
    if found is None:
        raise SetupError(f"unknown verbosity {name!r}; known: {', '.join(_VERBOSITIES)}")
    return found


def _as_dict(templates: Mapping[str, Texts]) -> dict[str, Texts]:
    try:
        return dict(templates)
    except (TypeError, ValueError) as exc:
        raise SetupError(f"`templates` of a Profile must be a mapping: {exc}") from exc


@attrs.frozen
class Profile:
    """A set of texts for errors. An error without a template gets the default text.

    Args:
        name: A name for the developer.
        templates: Texts by key, see `toolcall_pipeline.messages.templates`. Default: none.
        hints: Add the line of help below a problem that a template describes. Default True.
        questions: Keep an approved text that is a question already, without a template. Default False.
        json: Make one JSON object in place of a text, for values too. Default False.

    Raises:
        SetupError: A template is not valid.
    """

    name: str
    templates: Mapping[str, Texts] = attrs.field(default={}, converter=_as_dict, hash=False)
    hints: bool = True
    questions: bool = False
    json: bool = False

    def __attrs_post_init__(self) -> None:
        if self.templates:
            _ = self.compiled

    @property
    def compiled(self) -> Templates:
        """The templates, parsed."""
        from .templates import compile_templates  # 4 ms, and the default texts do without

        return compile_templates(self.templates)


def get_profile(profile: str | Profile) -> Profile:
    """Return the profile, or the one of `messages.profiles` that has the name; SetupError if there is none."""
    if isinstance(profile, Profile):
        return profile
    from .profiles import PROFILES  # 5 ms, and the default texts do without

    found = PROFILES.get(profile) if isinstance(cast("object", profile), str) else None
    if found is None:
        raise SetupError(f"unknown profile {profile!r}; known: {', '.join(PROFILES)}")
    return found


def _named(option: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except SetupError as exc:
        raise SetupError(f"Wording: `{option}`: {exc}") from exc


def _copy(templates: Mapping[str, Texts] | None) -> Mapping[str, Texts] | None:
    return None if templates is None else _named("templates", lambda: Profile("its own", templates).templates)


@attrs.frozen
class Wording:
    """The options of `render` that hold for all texts of a pipeline.

    Given to `standard` or `Stack.end`, it holds for all that tells the model of an outcome: `render(outcome,
    call=call)`, the messages of the adapters, the hosts, a server, a turn, a batch, and what traces and events say. An
    option that is given there wins over it.

    Args:
        profile: The name of a profile, or a `Profile`. Default ``"default"``.
        verbosity: ``"terse"``, ``"normal"`` (the default) or ``"full"``.
        templates: Texts that replace the texts of the profile; see `toolcall_pipeline.messages.templates`. Default
            None: none.
        listed: Tools in the list of a text for an unknown name, ≥ 0. Default None: as many as the error holds.

    Raises:
        SetupError: The profile or the verbosity is not known, a template is not valid, or ``listed`` is negative.
    """

    profile: str | Profile = "default"
    verbosity: str = "normal"
    templates: Mapping[str, Texts] | None = attrs.field(default=None, converter=_copy, hash=False)
    listed: int | None = None

    def __attrs_post_init__(self) -> None:
        _named("profile", lambda: get_profile(self.profile))
        _named("verbosity", lambda: get_verbosity(self.verbosity))
        check_count("Wording", "listed", self.listed, 0, optional=True)

    def list_tool_names(self) -> list[tuple[str, str]]:
        """The keys of ``templates`` that name a tool or a pattern of tools, each with that."""
        if not self.templates:
            return []
        from .templates import find_tool

        return [(key, tool) for key in self.templates if (tool := find_tool(key))]

    def changed(
        self,
        profile: str | Profile | None = None,
        verbosity: str | None = None,
        templates: Mapping[str, Texts] | None = None,
        listed: int | None = None,
    ) -> Wording:
        """The same wording with those of these options that are given. Raises as the class does."""
        return Wording(
            self.profile if profile is None else profile,
            self.verbosity if verbosity is None else verbosity,
            self.templates if templates is None else templates,
            self.listed if listed is None else listed,
        )
