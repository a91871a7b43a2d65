"""The stages, one file each, named after them.

Each is imported when it is first used.
"""

import typing

if __name__ == "middlewares":
    raise ImportError(
        "import toolcall_pipeline.middlewares: middlewares is only the folder of its source", name=__name__
    )

from .. import lazy_names

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
