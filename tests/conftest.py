"""Async tests run on both event loops; properties have the same examples each time, unless `--explore` is given."""

from __future__ import annotations

import faulthandler
import gc
import signal
import sys
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

STDERR = 2  # sys.stderr may be a file of the capture
ROOT = Path(__file__).parent.parent
TIME_TO_EXIT = 60  # seconds after the last test; an exporter's function at exit takes up to 30

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

if find_spec("hypothesis") is not None:  # the environments for a cluster and for databases have none
    from hypothesis import settings

    # No deadline: a busy machine is no failure.
    settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
    settings.register_profile("explore", deadline=None, derandomize=False, database=None, print_blob=True)
    settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make explore`."""
    what = "fresh random examples for each property, N times as many"
    parser.addoption("--explore", type=int, metavar="N", help=what)
    parser.addoption("--examples", type=int, metavar="N", help="at most N examples for each property")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse links that are files; choose the profile before the import of test files, whose `@settings` use it."""
    if not (ROOT / "toolcall_pipeline" / "middlewares").is_dir():
        raise pytest.UsageError(
            "toolcall_pipeline and pipeline/middlewares are text files in this checkout, not links: "
            "run `git config core.symlinks true && git checkout -- toolcall_pipeline pipeline/middlewares`"
        )
    if config.getoption("explore"):
        from hypothesis import settings

        settings.load_profile("explore")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Multiply or limit the examples of each property, also where its own `@settings` say how many."""
    times: int | None = config.getoption("explore")
    most: int | None = config.getoption("examples")
    if not times and not most:
        return
    from hypothesis import is_hypothesis_test, settings

    places: set[tuple[object, str]] = set()
    for item in items:
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            if isinstance(getattr(item.cls, "settings", None), settings):  # of a state machine
                places.add((item.cls, "settings"))
            else:  # where the plugin of Hypothesis itself changes them, too
                places.add((getattr(item.obj, "__func__", item.obj), "_hypothesis_internal_use_settings"))
    for holder, name in places:
        own: settings = getattr(holder, name)
        examples = own.max_examples * times if times else min(own.max_examples, most or own.max_examples)
        setattr(holder, name, settings(own, max_examples=examples))


def pytest_collection_finish() -> None:
    """Take the tests themselves out of the garbage collector's sight: a collection would visit all 17,000 each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape lone surrogates in captured output: pytest-xdist cannot send them from a worker."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


def pytest_unconfigure() -> None:
    """End the process, with all stacks and exit code 1, if a thread that a test left keeps it from ending."""
    faulthandler.dump_traceback_later(TIME_TO_EXIT, exit=True, file=STDERR)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _nothing_undecided() -> None:
    """What a test leaves undecided is remembered by the name of its tool, which another test may have as well."""
    if "toolcall_pipeline.once.undecided" in sys.modules:  # some environments test without the package
        sys.modules["toolcall_pipeline.once.undecided"].CONVERSATIONS.held.clear()
