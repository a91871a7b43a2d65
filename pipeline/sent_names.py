"""The name by which a model provider knows a tool: the tool's own, or one that is made for providers that refuse it."""

from __future__ import annotations

import re
from typing import Self

ALLOWED = re.compile(r"[a-zA-Z0-9_-]+")
DIGITS = 8  # of the hash that ends a changed name
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")


class OfferedName(str):
    """The name of a tool in a call from a provider that knows the tool, or some others, by a name of another form.

    It is equal to the name as plain text. A text for the model that names tools uses the provider's names instead.

    Args:
        name: The tool's own name; as it came, if no tool has it.
        longest: Characters of a name at that provider. Default 64, as at OpenAI.
    """

    __slots__ = ("longest",)
    longest: int

    def __new__(cls, name: str, longest: int = 64) -> Self:
        """Make the name. A pickle makes it without ``longest``, and sets that afterwards."""
        self = super().__new__(cls, name)
        self.longest = longest
        return self


def make_sent_name(name: str, longest: int) -> str:
    """The name of a tool at a provider, where the tool's registry is not at hand.

    It is the one of `ToolRegistry.provider_names`, unless another tool has the very name that would be made.

    Args:
        name: The tool's own name, or one that was made already.
        longest: Characters of a name at that provider.
    """
    return name if len(name) <= longest and ALLOWED.fullmatch(name) else change_name(name, longest, 0)


def change_name(name: str, longest: int, salt: int) -> str:
    """A name of allowed characters that ends with a hash of the whole.

    Args:
        name: The tool's own name.
        longest: Characters of a name at the provider.
        salt: Another number makes another name, for one that is taken; 0 for the first.
    """
    from hashlib import sha256  # takes 2 ms to import, and few names have to be changed

    salted = f"{name}\0{salt}" if salt else name
    digest = sha256(salted.encode(errors="surrogatepass")).hexdigest()[:DIGITS]
    return f"{_FORBIDDEN.sub('_', name)[: longest - DIGITS - 1]}_{digest}"
