"""The profiles that `render` knows by name. Their templates stand in the modules beside this one."""

from __future__ import annotations

from collections.abc import Mapping

from ..wording import Profile
from .agentopia import AGENTOPIA
from .source_documents import INVALID_TOOL, LLMPROC, RFC015, STRUCTURED

__all__ = ["PROFILES"]

_ALL = (
    Profile("default"),
    Profile("llmproc", LLMPROC, hints=False),
    Profile("rfc015", RFC015),
    Profile("structured", STRUCTURED, json=True),
    Profile("agentopia", AGENTOPIA, hints=False, questions=True),
    Profile("invalid_tool", INVALID_TOOL),
)
PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in _ALL}
