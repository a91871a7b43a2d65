"""``python -m benchmarks.hosts langchain``: the table of one framework, in the environment that has it.

``--cost`` measures what a call costs instead.
"""

from __future__ import annotations

import importlib
import logging
import sys

from benchmarks.hosts.cost import print_cost
from benchmarks.hosts.mistakes import compare

logging.disable(logging.CRITICAL)  # the frameworks log each failure with its stack
framework = importlib.import_module(f"benchmarks.hosts.in_{sys.argv[1]}")
if "--cost" in sys.argv[2:]:
    print_cost(framework)
else:
    sys.exit(min(1, compare(framework)))
