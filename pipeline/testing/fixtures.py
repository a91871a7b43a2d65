"""Fixtures for pytest. Ask for them in ``conftest.py``: ``pytest_plugins = ["toolcall_pipeline.testing.fixtures"]``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import clocks, recording


@pytest.fixture
def fake_clock() -> Iterator[clocks.FakeClock]:
    """A `FakeClock` that moves every stage during the test."""
    with clocks.FakeClock() as clock:
        yield clock


@pytest.fixture
def no_waiting() -> Iterator[clocks.FakeClock]:
    """No stage waits during the test; see `toolcall_pipeline.testing.no_waiting`."""
    with clocks.no_waiting() as clock:
        yield clock


@pytest.fixture
def recorded_spans() -> Iterator[recording.RecordedSpans]:
    """The spans of calls; see `toolcall_pipeline.testing.recorded_spans`."""
    with recording.recorded_spans() as recorded:
        yield recorded
