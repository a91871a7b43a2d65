"""Profile: a set of texts for errors, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import attrs

from ..errors import SetupError

if TYPE_CHECKING:
    from .templates import Templates, Texts


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
        hints: Add the line of help below a problem that a template has put into words. Default True.
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
    """The profile itself, or the one of `toolcall_pipeline.messages.profiles` that has the name.

    Raises:
        SetupError: No profile has that name.
    """
    if isinstance(profile, Profile):
        return profile
    from .profiles import PROFILES  # 5 ms, and the default texts do without

    found = PROFILES.get(profile) if isinstance(cast("object", profile), str) else None
    if found is None:
        raise SetupError(f"unknown profile {profile!r}; known: {', '.join(PROFILES)}")
    return found
