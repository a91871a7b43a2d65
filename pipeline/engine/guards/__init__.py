"""Guards: decide whether the body of a tool may begin, and whether a body that began may have taken effect."""

from .call_guards import Guards
from .guard import Board, Bodies, Guard, NotBegunError, OpenTools, TimeLimit, tool_of
from .one_effect import OneEffect, as_not_landed, as_outcome_unknown, denies_effect, landed_of
from .stage_entry import StageEntry, enter, keeps_guards, run_inside, watch_stage

__all__ = [
    "Board",
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
    "keeps_guards",
    "landed_of",
    "run_inside",
    "tool_of",
    "watch_stage",
]
