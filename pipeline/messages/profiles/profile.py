"""Profile: a way of telling errors, as data; six of them are known by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

import attrs

from ...errors import SetupError

if TYPE_CHECKING:
    from ..templates import Templates, Words


def _as_dict(templates: Mapping[str, Words]) -> dict[str, Words]:
    try:
        return dict(templates)
    except (TypeError, ValueError) as exc:
        raise SetupError(f"the templates of a profile are a mapping: {exc}") from exc


@attrs.frozen
class Profile:
    """What it has no template for has the default text. Raises SetupError for a template that makes no sense."""

    name: str
    templates: Mapping[str, Words] = attrs.field(default={}, converter=_as_dict, hash=False)  # see `templates`
    hints: bool = True  # whether the line that helps follows a problem that a template words
    questions: bool = False  # whether an approved text that is a question already is told as it is
    json: bool = False  # one JSON object in place of a text, for values too

    def __attrs_post_init__(self) -> None:
        if self.templates:
            _ = self.compiled

    @property
    def compiled(self) -> Templates:
        """The templates, ready for use."""
        from ..templates import compiled

        return compiled(self.templates)


class _Profiles(Mapping[str, Profile]):
    """The six, made when the first of them is asked for: their texts are many, and mostly the default is wanted."""

    def __init__(self) -> None:
        self._known: dict[str, Profile] = {}

    def _all(self) -> dict[str, Profile]:
        if not self._known:
            from .agentopia import AGENTOPIA
            from .source_documents import INVALID_TOOL, LLMPROC, RFC015, STRUCTURED

            each = (
                Profile("default"),
                Profile("llmproc", LLMPROC, hints=False),
                Profile("rfc015", RFC015),
                Profile("structured", STRUCTURED, json=True),
                Profile("agentopia", AGENTOPIA, hints=False, questions=True),
                Profile("invalid_tool", INVALID_TOOL),
            )
            self._known = {profile.name: profile for profile in each}
        return self._known

    def __getitem__(self, name: str) -> Profile:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"PROFILES({', '.join(self)})"


PROFILES: Mapping[str, Profile] = _Profiles()


def profile_of(profile: str | Profile) -> Profile:
    """The profile itself, or the one of that name. Raises SetupError for another name."""
    if isinstance(profile, Profile):
        return profile
    found = PROFILES.get(profile) if isinstance(cast("object", profile), str) else None
    if found is None:
        raise SetupError(f"no profile is called {profile!r}; there are {', '.join(PROFILES)}")
    return found
