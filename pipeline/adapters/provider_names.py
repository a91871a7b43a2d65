"""Tool names as a provider takes them, and the way back: injective within a registry, the same in every run."""

from __future__ import annotations

import re
from hashlib import sha256

from ..tools.registry import ToolRegistry

OPENAI = 64  # characters; https://platform.openai.com/docs/api-reference/chat/create, tools.function.name
ANTHROPIC = 128  # characters; https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use

_ALLOWED = re.compile(r"[a-zA-Z0-9_-]+")
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")
_DIGITS = 8  # of the hash that a changed name ends with
_CHANGED = re.compile(rf"[a-zA-Z0-9_-]*_[0-9a-f]{{{_DIGITS}}}")


def sent_names(registry: ToolRegistry, longest: int) -> dict[str, str]:
    """What each tool is called on the wire, by its own name.

    A name that the provider allows stays as it is. Another has each forbidden character replaced by ``_``, is cut to
    fit, and ends with a hash of the whole: no two tools meet, and none meets another's own name or alias.
    """
    sent = {name: name for name in registry.tools if _is_allowed(name, longest)}
    if len(sent) == len(registry.tools):
        return sent
    taken = {*registry.tools, *registry.aliases}
    for name in sorted(registry.tools.keys() - sent.keys()):  # sorted: registering in another order changes nothing
        again = 0
        while (mapped := _mapped(name, longest, again)) in taken:
            again += 1
        taken.add(mapped)
        sent[name] = mapped
    return sent


def own_names(registry: ToolRegistry, longest: int) -> dict[str, str]:
    """The way back, for the names that were changed: a tool's own name, by what it is called on the wire."""
    return {sent: name for name, sent in sent_names(registry, longest).items() if sent != name}


def own_name(registry: ToolRegistry, name: str) -> str | None:
    """The tool that some provider knows by this name; None for a name that no adapter made for this registry."""
    if not _CHANGED.fullmatch(name):  # the common case costs one look
        return None
    return next((own for longest in (OPENAI, ANTHROPIC) if (own := own_names(registry, longest).get(name))), None)


def _is_allowed(name: str, longest: int) -> bool:
    return len(name) <= longest and _ALLOWED.fullmatch(name) is not None


def _mapped(name: str, longest: int, again: int) -> str:
    salt = f"\0{again}" if again else ""  # only where the name that would be made is taken
    digest = sha256((name + salt).encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    return f"{_FORBIDDEN.sub('_', name)[: longest - _DIGITS - 1]}_{digest}"
