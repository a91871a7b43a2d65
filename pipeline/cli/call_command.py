"""``toolcall call``: makes one call, prints what the model would be told, and how the call went."""

from __future__ import annotations

import signal
import sys

import anyio
from returns.result import Failure
from rich.console import Console

from toolcall_pipeline.middlewares import standard

from ..call import Call
from ..compose.pipeline import Pipeline
from ..errors import Crashed, SetupError
from ..privacy import make_mask, neutralise
from ..report import CallReport
from ..telemetry.logs import log_failure
from .call_tree import print_tree
from .command_error import CommandError
from .loading import check_schemas, find_registry, load_target
from .opening import open_pipeline
from .run.abandoned_threads import exit_without_threads
from .run.interruption import to_exit_code
from .run.result_rows import build_result, encode_row
from .stdio import redirect_to_stderr


def call(target: str, name: str, arguments: str | None, *, as_json: bool, trace: bool, timeout: float | None) -> int:
    """Make one call. The parameters are those of the command.

    Returns:
        0: the call succeeded. 1: it failed. 130: SIGINT interrupted it.

    Raises:
        CommandError: Nothing was run.
    """
    with redirect_to_stderr():
        pipeline = _build_pipeline(target)
        if arguments == "-":
            arguments = sys.stdin.read()
        try:
            report = anyio.run(_run, pipeline, target, Call(name, arguments, id="call_1", timeout=timeout))
        except KeyboardInterrupt:
            return to_exit_code(signal.SIGINT)
        if trace:
            print_tree(Console(stderr=True, highlight=False, markup=False, emoji=False), report)
    result = build_result(report)
    if as_json:
        sys.stdout.buffer.write(encode_row({"name": name, **result}))
    else:
        told = str(result["told"])
        print(neutralise(told, keep_lines=True) if sys.stdout.isatty() else told)
    sys.stdout.flush()
    code = int(not result["ok"])
    exit_without_threads(code)
    return code


def _build_pipeline(target: str) -> Pipeline:
    loaded = load_target(target)
    if (registry := find_registry(loaded)) is not None:
        check_schemas(registry, target)  # now, so that the tree shows the time of the call alone
    if isinstance(loaded, Pipeline):
        return loaded
    try:
        return standard(loaded)
    except SetupError as exc:
        raise CommandError(f"{target}: {exc}") from None


async def _run(pipeline: Pipeline, target: str, call: Call) -> CallReport:
    async with open_pipeline(pipeline, target):
        return await _report(pipeline, call)


async def _report(pipeline: Pipeline, call: Call) -> CallReport:
    try:
        return await pipeline.report(call)
    except (SystemExit, GeneratorExit) as exc:  # a tool that exits ends its call; no pipeline may catch these
        error = Crashed(exc)
        tool = pipeline.find(call.name)
        log_failure(call, tool, error, make_mask(call, tool))
        return CallReport(pipeline.redact(call), tool, outcome=Failure(error))
