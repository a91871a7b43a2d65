"""The names of tools at model providers: a tool's own name, or one made for providers that refuse it, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Self

from .setup_error import SetupError

OPENAI = 64  # characters; https://platform.openai.com/docs/api-reference/chat/create, tools.function.name
ANTHROPIC = 128  # characters; https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use
GEMINI = 64  # https://ai.google.dev/gemini-api/docs/function-calling; newer models take more
BEDROCK = 64  # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html
LIMITS = (OPENAI, ANTHROPIC)  # a provider with another limit is one more entry here
_LONGEST = max(LIMITS)


_ALLOWED = re.compile(r"[a-zA-Z0-9_-]+")
_TUPLE: Any = tuple  # under this name type checkers do not narrow to a tuple of unknown things
_TEXT = frozenset((str,))
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")
_DIGITS = 8  # of the hash that ends a changed name
_CHANGED = re.compile(rf"[a-zA-Z0-9_-]*_[0-9a-f]{{{_DIGITS}}}")


class OfferedName(str):
    """The name of a tool in a call from a provider that knows some tools by a changed name.

    It is equal to the name as plain text. Texts for the model use the provider's names of tools instead.

    Args:
        name: The tool's own name; the name as it came, if no tool has it.
        longest: Characters of a name at that provider. Default 64, as at OpenAI.
    """

    __slots__ = ("longest",)
    longest: int

    def __new__(cls, name: str, longest: int = 64) -> Self:
        """Make the name. A pickle makes it without ``longest``, and sets that afterwards."""
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

    def __init__(self, tools: Mapping[str, Any], aliases: Mapping[str, Any], changes: Callable[[], int]) -> None:
        self._tools, self._aliases = tools, aliases
        self._changes = changes
        self._made_for = -1  # the number that the maps below were made for
        self._sent: dict[int, dict[str, str]] = {longest: {} for longest in LIMITS}
        self._own: dict[str, str] = {}

    def map_names(self, longest: int) -> dict[str, str]:
        """Return each tool's name at a provider, by its own; SetupError if ``longest`` is not one of `LIMITS`."""
        if longest not in LIMITS:
            known = ", ".join(map(str, LIMITS))
            raise SetupError(f"no provider is known to accept names of {longest} characters; known limits: {known}")
        self._update()
        return self._sent[longest]

    def find_own(self, sent: str) -> str | None:
        """Find the own name of the tool that a provider knows as ``sent``; None unless ``sent`` is a changed name."""
        if len(sent) > _LONGEST or not _CHANGED.fullmatch(sent):  # most names: no maps needed
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
    """Return the name that each tool has at a provider, and add the changed names to ``own``."""
    sent: dict[str, str] = {}
    for name in names:
        if len(name) <= longest and _ALLOWED.fullmatch(name):
            sent[name] = name
            continue
        salt = 0  # another one only if the name without one is taken
        while (changed := _change_name(name, longest, salt)) in taken or own.get(changed, name) != name:
            salt += 1
        own[changed] = name
        sent[name] = changed
    return sent


def accepts_all(longest: int, names: Any, more: Any) -> bool:
    """Whether these are names, and a provider takes each of them as it is."""
    if type(names) is not _TUPLE or type(more) is not _TUPLE:
        return False
    given = names + more
    if not given or not _TEXT.issuperset(map(type, given)):
        return not given
    letters = "".join(given)  # a few methods of text take half the time of a pattern
    return (
        letters.isascii()
        and letters.replace("_", "0").replace("-", "0").isalnum()
        and "" not in given
        and (len(letters) <= longest or max(map(len, given)) <= longest)
    )


def make_provider_name(name: str, longest: int) -> str:
    """Return the name of a tool at a provider, where the tool's registry is not at hand.

    It is the name in `ToolView.provider_names`, unless another tool already has the name that would be made.
    """
    return name if len(name) <= longest and _ALLOWED.fullmatch(name) else _change_name(name, longest, 0)


def _change_name(name: str, longest: int, salt: int) -> str:
    """Return a name of allowed characters with a hash of the whole name at its end; another ``salt`` makes another."""
    from hashlib import sha256  # takes 2 ms to import, and few names have to be changed

    salted = f"{name}\0{salt}" if salt else name
    digest = sha256(salted.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    return f"{_FORBIDDEN.sub('_', name)[: longest - _DIGITS - 1]}_{digest}"
