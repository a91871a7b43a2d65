"""All charts, in the order of their measurement."""

from __future__ import annotations

from benchmarks.growth.arguments import ARGUMENTS
from benchmarks.growth.in_flight import IN_FLIGHT, IN_FLIGHT_MEMORY, SYNC_TOOLS
from benchmarks.growth.kept import KEPT, RESTED
from benchmarks.growth.results import RESULTS
from benchmarks.growth.stages import STAGES
from benchmarks.growth.tools import BY_NAME, OFFERED, WRONG_NAMES

CHARTS = (
    STAGES,
    BY_NAME,
    WRONG_NAMES,
    OFFERED,
    ARGUMENTS,
    RESULTS,
    IN_FLIGHT,
    IN_FLIGHT_MEMORY,
    SYNC_TOOLS,
    KEPT,
    RESTED,
)
BY_KEY = {chart.key: chart for chart in CHARTS}
