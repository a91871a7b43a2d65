"""Text that came from outside, made safe for terminals, files and logs."""

from .escaping import CUT, dump_neutral_json, neutralise
from .safe_exceptions import StandIn, cut_traceback, make_safe
from .safe_logging import get_logger

__all__ = ["CUT", "StandIn", "cut_traceback", "dump_neutral_json", "get_logger", "make_safe", "neutralise"]
