"""The cost of a middleware: figures of a pipeline and of each of its stages. README.md in this folder is the guide."""

from .costs import Overhead, StageCost
from .figures import Figure
from .gate import assert_overhead
from .later_run import Change, compare_runs, explain_speed
from .measuring import measure
from .table import draw_bars, format_changes, format_overhead

__all__ = [
    "Change",
    "Figure",
    "Overhead",
    "StageCost",
    "assert_overhead",
    "compare_runs",
    "draw_bars",
    "explain_speed",
    "format_changes",
    "format_overhead",
    "measure",
]
