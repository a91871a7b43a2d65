"""Spans, metrics, log records and events, all computed from the report of a call.

README.md in this folder is the guide. Only `configure` and `FlushDeferred` load the SDK.
"""

from ..base import lazy_names

__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
