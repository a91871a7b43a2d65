"""The stages, one file each, named after them.

Each is imported when it is first used.
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

from pipeline import lazy_names

if typing.TYPE_CHECKING:
    from .available import Available
    from .cache import Cache
    from .circuit_breaker import CircuitBreaker
    from .classify import Classify
    from .concurrency import Concurrency
    from .execute import Execute
    from .loop_guard import LoopGuard
    from .rate_limit import RateLimit
    from .resolve import Resolve
    from .retry import Retry
    from .shape import Shape
    from .standard_stack import standard
    from .timeout import Timeout
    from .trace import Trace
    from .validate import Validate

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
_NAMES = {  # module -> what it provides; as the imports above, which the type checkers read
    "available": "Available",
    "cache": "Cache",
    "circuit_breaker": "CircuitBreaker",
    "classify": "Classify",
    "concurrency": "Concurrency",
    "execute": "Execute",
    "loop_guard": "LoopGuard",
    "rate_limit": "RateLimit",
    "resolve": "Resolve",
    "retry": "Retry",
    "shape": "Shape",
    "standard_stack": "standard",
    "timeout": "Timeout",
    "trace": "Trace",
    "validate": "Validate",
}
__getattr__ = lazy_names.import_at_first_use(__name__, _NAMES)
