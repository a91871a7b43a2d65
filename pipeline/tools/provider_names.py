"""Provider names: tool names in the form that model providers accept, and back."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Self

from ..errors import SetupError

OPENAI = 64  # characters; https://platform.openai.com/docs/api-reference/chat/create, tools.function.name
ANTHROPIC = 128  # characters; https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use
LIMITS = (OPENAI, ANTHROPIC)  # a provider with another limit is one more entry here

_ALLOWED = re.compile(r"[a-zA-Z0-9_-]+")
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")
_DIGITS = 8  # of the hash that ends a changed name
_CHANGED = re.compile(rf"[a-zA-Z0-9_-]*_[0-9a-f]{{{_DIGITS}}}")


class OfferedName(str):
    """The name in a call from a provider, if no tool has it: the answer has to use the names that were sent there.

    Args:
        name: The name as it came.
        longest: Characters of a name at that provider, one of `LIMITS`.
    """

    __slots__ = ("longest",)
    longest: int

    def __new__(cls, name: str, longest: int = OPENAI) -> Self:
        """Make the name; a pickle gives ``longest`` afterwards."""
        self = super().__new__(cls, name)
        self.longest = longest
        return self


class ProviderNames:
    """Maps the names of one registry's tools to names that each provider accepts, and back.

    A name that the provider accepts stays as it is. In any other name each forbidden character becomes ``_``, the
    name is cut to the limit, and it ends with a hash of the whole. The mapping is injective over all limits: no two
    tools share a name, and no tool gets another tool's own name or alias. It does not depend on the order of
    registration and is the same in every process, so a stored conversation can go on elsewhere.
    """

    def __init__(self, tools: Mapping[str, Any], aliases: Mapping[str, Any]) -> None:
        self._tools, self._aliases = tools, aliases  # the registry's own
        self._known: tuple[list[str], list[str]] = [], []  # tools and aliases that the maps below were made for
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
        known = list(self._tools), list(self._aliases)
        if known == self._known:
            return
        names = sorted(known[0])
        own: dict[str, str] = {}
        taken = {*names, *known[1]}
        maps = {longest: _map_names(names, longest, taken, own) for longest in LIMITS}
        self._sent, self._own, self._known = maps, own, known


def _map_names(names: Collection[str], longest: int, taken: Collection[str], own: dict[str, str]) -> dict[str, str]:
    """The name that each tool has at a provider; changed names are added to ``own``."""
    sent: dict[str, str] = {}
    for name in names:
        salt, changed = 0, make_sent_name(name, longest)
        if changed == name:
            sent[name] = name
            continue
        while changed in taken or own.get(changed, name) != name:
            salt += 1
            changed = _change(name, longest, salt)
        own[changed] = name
        sent[name] = changed
    return sent


def make_sent_name(name: str, longest: int) -> str:
    """The name of a tool at a provider, where its registry is not at hand.

    It is that of `ProviderNames.sent`, unless another tool of the registry has the very name that would be made.

    Args:
        name: The tool's own name, or one that was made already.
        longest: Characters of a name at that provider, one of `LIMITS`.
    """
    return name if len(name) <= longest and _ALLOWED.fullmatch(name) else _change(name, longest, 0)


def _change(name: str, longest: int, salt: int) -> str:
    from hashlib import sha256  # takes 2 ms to import, and few names have to be changed

    salted = f"{name}\0{salt}" if salt else name  # a salt only if the name without one is taken
    digest = sha256(salted.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    return f"{_FORBIDDEN.sub('_', name)[: longest - _DIGITS - 1]}_{digest}"
