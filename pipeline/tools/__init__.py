"""Tools, the registry that holds them by name, and the meaning of their exceptions."""

from ..base import lazy_names

__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
