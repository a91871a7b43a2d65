"""``toolcall serve``: a pipeline as a server of MCP, over stdin and stdout or over HTTP."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import anyio
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

from toolcall_pipeline.middlewares import standard

from ..base.event_loops import get_event_loop
from ..base.setup_error import SetupError
from ..engine.compose.pipeline import Pipeline
from ..mcp.http_transport import HttpTransport, is_local
from ..mcp.serving import make_server
from ..mcp.stdio_transport import StdioTransport
from .asker import NOBODY, Asker
from .loading import keep, load_checked, open_pipeline, word
from .named_store import make_store
from .run.interruption import catch_signals, exit_without_threads, to_exit_code
from .shared_options import AS_IT_IS, Worded
from .stdio import redirect_to_stderr, take_stdin, take_stdout
from .terminal_text import CommandError

_HOST_NAME = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:]+\])(:[0-9]+)?")  # as in a Host header
_EXPORT = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")


class _Transport(Protocol):
    async def run(self, server: Any) -> None:
        """Serve clients until the end."""

    def stop(self) -> None:
        """End it."""


def serve(
    target: str,
    asker: Asker = NOBODY,
    worded: Worded = AS_IT_IS,
    *,
    http: str | None,
    allowed: Sequence[str],
    journal: Path | None = None,
    policy: Path | None = None,
    store: str | None = None,
) -> int:
    """Serve the tools of a registry or a pipeline until the client closes its end, or a signal comes."""
    address = None if http is None else read_address(http)
    if allowed and address is None:
        raise CommandError("--allow-host is for --http")
    for name in allowed:
        if not _HOST_NAME.fullmatch(name):  # it would let no client in, without a reason
            raise CommandError(f"--allow-host must be the name of a host, such as tools.example.com, not {name!r}")
    try:
        with ExitStack() as stack:
            stdin = stdout = -1
            if address is None:
                stdin, stdout = stack.enter_context(take_stdin()), stack.enter_context(take_stdout())
            stack.enter_context(redirect_to_stderr())
            pipeline = keep(word(_load_pipeline(target, policy, store), worded), journal)

            def connect() -> _Transport:
                if address is None:
                    return StdioTransport(stdin, stdout)
                return _open_http(*address, allowed)

            code = _run(target, pipeline, asker, connect)
            exit_without_threads(code)
            return code
    except KeyboardInterrupt:  # before anything is served; later it is caught as a signal
        return to_exit_code(signal.SIGINT)
    except OSError as exc:
        what = "stdin and stdout must be open" if http is None else f"--http {http}"
        raise CommandError(f"{what}: {exc.strerror or exc}") from exc
    except SetupError as exc:
        raise CommandError(f"{target}: {exc}") from exc


def _load_pipeline(target: str, policy: Path | None, store: str | None) -> Pipeline:
    loaded = load_checked(target)
    if any(map(os.environ.get, _EXPORT)) and isinstance(get_tracer_provider(), ProxyTracerProvider):
        from ..telemetry import configure  # the module of the tools has not done it

        configure()
    if not isinstance(loaded, Pipeline):
        return standard(loaded, policy=policy, store=None if store is None else make_store(store))
    if policy is not None or store is not None:
        raise CommandError(
            f"--policy and --store are for a ToolRegistry, and {target} is a Pipeline with its own stages"
        )
    return loaded


def _run(target: str, pipeline: Pipeline, asker: Asker, connect: Callable[[], _Transport]) -> int:
    async def run() -> int:
        loop = get_event_loop()
        async with asker.bind(pipeline) as bound:
            server = make_server(bound, name=target.partition(":")[0])
            transport = connect()
            async with open_pipeline(bound, target):
                with catch_signals(lambda: loop.call_soon(transport.stop)) as caught:
                    await transport.run(server)
        return to_exit_code(caught[0]) if caught else 0

    return anyio.run(run)


def _open_http(host: str, port: int, allowed: Sequence[str]) -> HttpTransport:
    transport = HttpTransport(host, port, allowed)
    transport.open()
    print(f"toolcall serve: {transport.url}", file=sys.stderr, flush=True)
    if not is_local(host):
        print("toolcall serve: others can reach this address, and nothing asks them who they are", file=sys.stderr)
    return transport


def read_address(text: str) -> tuple[str, int]:
    """The host and the port in HOST:PORT, PORT or :PORT; CommandError for anything else."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not port.isascii() or int(port) > 65_535:  # noqa: PLR2004  # the last port there is
        raise CommandError(f"--http must be HOST:PORT or PORT, such as 127.0.0.1:8000, not {text}")
    return host.strip("[]") or "127.0.0.1", int(port)
