"""Stores keep what must outlive a process or be shared by several: keys, values, versions."""

from ..base import lazy_names

__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
