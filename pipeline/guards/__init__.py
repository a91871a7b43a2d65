"""What decides whether the body of a tool may begin, and whether a body that began may have taken effect."""

from .bodies import Bodies
from .call_guards import Guards
from .entry import Entry, enter
from .guard import Guard, NotBegunError, tool_of
from .guarded_run import refuse_swap, run_inside
from .landed import hides_effect, landed_of, tell_lost
from .one_effect import OneEffect
from .open_tools import OpenTools
from .time_limit import TimeLimit

__all__ = [
    "Bodies",
    "Entry",
    "Guard",
    "Guards",
    "NotBegunError",
    "OneEffect",
    "OpenTools",
    "TimeLimit",
    "enter",
    "hides_effect",
    "landed_of",
    "refuse_swap",
    "run_inside",
    "tell_lost",
    "tool_of",
]
