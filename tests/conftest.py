"""Every async test runs on both event loops."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("without a deadline", deadline=None)  # a busy machine is no failure
settings.load_profile("without a deadline")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)
