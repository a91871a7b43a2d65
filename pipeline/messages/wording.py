"""Wording: how the texts for the model are worded, once for a whole pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from .style import Profile
    from .templates import Texts


@attrs.frozen
class Wording:
    """The options of `render` that hold for all texts of a pipeline.

    Attributes:
        profile: The name of a profile, or a `Profile`. Default ``"default"``.
        verbosity: ``"terse"``, ``"normal"`` (the default) or ``"full"``.
        templates: Texts that replace the texts of the profile; see `toolcall_pipeline.messages.templates`. Default
            None: none.
        listed: Tools in the list of a text for an unknown name, ≥ 0. Default None: as many as the error holds.
    """

    profile: str | Profile = "default"
    verbosity: str = "normal"
    templates: Mapping[str, Texts] | None = None
    listed: int | None = None
