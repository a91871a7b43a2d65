"""Executors run tools: in the event loop, in threads, in processes of this machine, on a Ray cluster."""

from ..base import lazy_names

__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
