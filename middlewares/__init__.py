"""The stages, one file each, named after them.

Those of the standard stack are imported with the package, the others when they are first used.
"""
# ruff: noqa: E402, PTH100, PTH118, PTH120  # the check of the name comes first, and pathlib takes 4 ms to import

import importlib.util
import os.path
import typing


def _check_pipeline() -> None:
    """Raise ImportError if ``import pipeline`` would not import the package beside this one.

    The usual reason is an application's own ``pipeline.py``. Without this check the first stage would fail with
    ``cannot import name …``. The check only looks the file up: to execute it could import this package again.
    """
    spec = importlib.util.find_spec("pipeline")
    if spec is None or spec.origin is None:
        return
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ours = os.path.join(here, "pipeline")
    if os.path.realpath(os.path.dirname(spec.origin)) != os.path.realpath(ours):
        raise ImportError(
            f"{spec.origin} hides the package 'pipeline' of toolcall-pipeline ({ours}), because Python imports the "
            "first one that it finds on sys.path: rename it, or move it into a package of your application",
            name="pipeline",
            path=spec.origin,
        )


_check_pipeline()

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
    from .shape import Shape

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
    "Shape",
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
    "Shape": "shape",
}


def __getattr__(name: str) -> typing.Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
