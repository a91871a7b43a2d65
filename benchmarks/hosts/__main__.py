"""``python -m benchmarks.hosts langchain``: the table of one framework, in the environment that has it."""

from __future__ import annotations

import importlib
import logging
import sys

from benchmarks.hosts.mistakes import compare

logging.disable(logging.CRITICAL)  # the frameworks log each failure with its stack
sys.exit(min(1, compare(importlib.import_module(f"benchmarks.hosts.in_{sys.argv[1]}"))))
