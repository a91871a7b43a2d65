"""Parameters of tools: their schema, and how arguments are parsed, repaired or refused. See README.md."""

from ..base import lazy_names

__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
