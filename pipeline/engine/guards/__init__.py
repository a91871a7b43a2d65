"""Guards: decide whether the body of a tool may begin, and whether a body that began may have taken effect."""

from .call_guards import Guards
from .guard import Bodies, Guard, NotBegunError, tool_of
from .landed import as_not_landed, as_outcome_unknown, denies_effect, landed_of
from .one_effect import OneEffect
from .open_tools import OpenTools
from .stage_entry import StageEntry, enter, guard_stage, run_inside
from .time_limit import TimeLimit

__all__ = [
    "Bodies",
    "Guard",
    "Guards",
    "NotBegunError",
    "OneEffect",
    "OpenTools",
    "StageEntry",
    "TimeLimit",
    "as_not_landed",
    "as_outcome_unknown",
    "denies_effect",
    "enter",
    "guard_stage",
    "landed_of",
    "run_inside",
    "tool_of",
]
