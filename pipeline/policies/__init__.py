"""Policies: rules, written as data, that decide whether a call runs."""

from ..base import lazy_names

__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
