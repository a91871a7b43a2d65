"""Provider names: tool names in the form that model providers accept, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..errors import SetupError
from ..sent_names import ALLOWED, DIGITS
from ..sent_names import change_name as _change

OPENAI = 64  # characters; https://platform.openai.com/docs/api-reference/chat/create, tools.function.name
ANTHROPIC = 128  # characters; https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use
GEMINI = 64  # https://ai.google.dev/gemini-api/docs/function-calling; newer models take more
BEDROCK = 64  # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html
LIMITS = (OPENAI, ANTHROPIC)  # a provider with another limit is one more entry here

_CHANGED = re.compile(rf"[a-zA-Z0-9_-]*_[0-9a-f]{{{DIGITS}}}")


class ProviderNames:
    """Maps the names of one registry's tools to names that each provider accepts, and back.

    A name that the provider accepts stays as it is. In any other name each forbidden character becomes ``_``, the
    name is cut to the limit, and it ends with a hash of the whole. The mapping is injective over all limits: no two
    tools share a name, and no tool gets another tool's own name or alias. It does not depend on the order of
    registration and is the same in every process, so a stored conversation can go on elsewhere.

    Args:
        tools: The registry's own, by name.
        aliases: Its tools by their further names.
        changes: Returns another number after each change of these, so that no call has to compare all names.
    """

    def __init__(self, tools: Mapping[str, Any], aliases: Mapping[str, Any], changes: Callable[[], int]) -> None:
        self._tools, self._aliases = tools, aliases
        self._changes = changes
        self._made_for = -1  # the number that the maps below were made for
        self._sent: dict[int, dict[str, str]] = {longest: {} for longest in LIMITS}
        self._own: dict[str, str] = {}

    def sent(self, longest: int) -> dict[str, str]:
        """The name that each tool has at a provider, by the tool's own name.

        Raises:
            SetupError: ``longest`` is none of `LIMITS`, so no process could read the names back.
        """
        if longest not in LIMITS:
            known = ", ".join(map(str, LIMITS))
            raise SetupError(f"no provider is known to accept names of {longest} characters; known limits: {known}")
        self._update()
        return self._sent[longest]

    def find_own(self, sent: str) -> str | None:
        """The own name of the tool that a provider knows as ``sent``; None unless that is a changed name."""
        if len(sent) > max(LIMITS) or not _CHANGED.fullmatch(sent):  # most names: no maps needed
            return None
        self._update()
        return self._own.get(sent)

    def _update(self) -> None:
        changes = self._changes()  # before the names: they may be newer than this number, never older
        if changes == self._made_for:
            return
        names = sorted(self._tools)
        own: dict[str, str] = {}
        taken = {*names, *self._aliases}
        self._sent, self._own = {longest: _map_names(names, longest, taken, own) for longest in LIMITS}, own
        self._made_for = changes


def _map_names(names: Collection[str], longest: int, taken: Collection[str], own: dict[str, str]) -> dict[str, str]:
    """The name that each tool has at a provider; changed names are added to ``own``."""
    sent: dict[str, str] = {}
    for name in names:
        if len(name) <= longest and ALLOWED.fullmatch(name):
            sent[name] = name
            continue
        salt = 0  # another one only if the name without one is taken
        while (changed := _change(name, longest, salt)) in taken or own.get(changed, name) != name:
            salt += 1
        own[changed] = name
        sent[name] = changed
    return sent
