"""Adapters between the wire formats of model providers and our calls and outcomes: pure functions, no SDK imported."""

from ..base import lazy_names

__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
