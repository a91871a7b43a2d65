"""Event loops: the one of synchronous calls, who was cancelled, and how a thread wakes a task in one."""

from .. import lazy_names

__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
