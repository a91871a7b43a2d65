"""Texts for the model: `render`, `Conversation`, profiles, parts of a result; and `raise_for_error` for callers."""

from ..base import lazy_names

__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
