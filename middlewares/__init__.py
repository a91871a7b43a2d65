"""The stages, one file each, named after them."""

from .available import Available
from .classify import Classify
from .execute import Execute
from .resolve import Resolve
from .retry import Retry
from .standard import standard
from .timeout import Timeout
from .trace import Trace
from .validate import Validate

__all__ = [
    "Available",
    "Classify",
    "Execute",
    "Resolve",
    "Retry",
    "Timeout",
    "Trace",
    "Validate",
    "standard",
]
