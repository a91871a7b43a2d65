"""Every async test runs on both event loops, and no example of a property has a deadline."""

from __future__ import annotations

import signal
from importlib.util import find_spec

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

if find_spec("hypothesis") is not None:  # the environments for a cluster and for databases have none
    from hypothesis import settings

    settings.register_profile("without a deadline", deadline=None)  # a busy machine is no failure
    settings.load_profile("without a deadline")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)
