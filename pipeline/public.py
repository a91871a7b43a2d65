"""PublicText: what a model may see, a type that the text of an exception is not of."""

from __future__ import annotations

from typing import LiteralString, NewType, TypeAlias, cast

PublicText = NewType("PublicText", str)
# What an error takes for the model: a text that stands in the source, or one that somebody approved. So ``str(exc)``,
# a plain str, is a type error (pyright; to mypy a LiteralString is any str).
Public: TypeAlias = LiteralString | PublicText


def approved(text: str) -> PublicText:
    """An author's word that a model may see this text: ``approved(f"only {n} calls a minute")``.

    Raises TypeError for what is no text: an exception has to be put into words.
    """
    if not isinstance(cast("object", text), str):
        raise TypeError(f"only text can be approved for a model, and not {type(text).__name__}")
    return PublicText(text)
