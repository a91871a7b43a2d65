"""The stages, one file each, named after them. Those of the standard stack at once, the others when first named."""

import importlib
import typing

from .available import Available
from .classify import Classify
from .execute import Execute
from .resolve import Resolve
from .retry import Retry
from .standard_stack import standard
from .timeout import Timeout
from .trace import Trace
from .validate import Validate

if typing.TYPE_CHECKING:
    from .cache import Cache
    from .circuit_breaker import CircuitBreaker
    from .concurrency import Concurrency
    from .loop_guard import LoopGuard
    from .rate_limit import RateLimit

__all__ = [
    "Available",
    "Cache",
    "CircuitBreaker",
    "Classify",
    "Concurrency",
    "Execute",
    "LoopGuard",
    "RateLimit",
    "Resolve",
    "Retry",
    "Timeout",
    "Trace",
    "Validate",
    "standard",
]
_LATER = {
    "Cache": "cache",
    "CircuitBreaker": "circuit_breaker",
    "Concurrency": "concurrency",
    "LoopGuard": "loop_guard",
    "RateLimit": "rate_limit",
}


def __getattr__(name: str) -> typing.Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
