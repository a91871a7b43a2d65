"""Wording: how the texts for the model are worded, once for a whole pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import attrs

from ..base.options import check_count
from ..base.setup_error import SetupError
from .style import Profile, get_profile, get_verbosity

if TYPE_CHECKING:
    from .templates import Texts

T = TypeVar("T")


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
