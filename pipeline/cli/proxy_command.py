"""``toolcall proxy``: stands between a client and a server of MCP."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio
import attrs
from anyio.abc import TaskGroup

from ..base.options import read_url
from ..base.setup_error import SetupError
from ..mcp.child import Child
from ..mcp.lines import LineReader, LineWriter
from ..mcp.policy_pipeline import make_pipeline
from ..mcp.relay import Relay
from ..mcp.upstream import ServerFailedError
from ..policies.policy_file import read_policy
from ..policies.relay_policy import RelayPolicy
from .loading import keep
from .named_store import make_store
from .run.interruption import to_exit_code
from .shared_options import AS_IT_IS, Worded
from .stdio import take_stdin, take_stdout
from .terminal_text import CommandError

if TYPE_CHECKING:
    from ..mcp.server import Server

_Starter: TypeAlias = Callable[[TaskGroup], Awaitable["Server"]]
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_EXPORT = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")


def proxy(
    command: Sequence[str],
    *,
    config: Path | None,
    trust_annotations: bool,
    url: str | None,
    headers: Sequence[str],
    worded: Worded = AS_IT_IS,
    journal: Path | None = None,
    store: str | None = None,
) -> int:
    """Relay between stdin and stdout on one side and a server on the other, until one of them ends."""
    try:
        policy = RelayPolicy() if config is None else read_policy(config)
        if trust_annotations:
            policy = attrs.evolve(policy, trust_annotations=True)
        if worded != AS_IT_IS:
            words = {name: each for name, each in worded._asdict().items() if each is not None}
            policy = attrs.evolve(policy, **words)
        configure_telemetry(policy)
        start = _choose_start(command, url, headers, policy)
    except SetupError as exc:
        raise CommandError(str(exc)) from exc
    try:
        with take_stdin() as stdin, take_stdout() as stdout:
            return anyio.run(_relay, start, policy, stdin, stdout, journal, store)
    except OSError as exc:
        raise CommandError(f"stdin and stdout must be open: {exc.strerror}") from exc
    except SetupError as exc:
        raise CommandError(str(exc)) from exc
    except ServerFailedError as exc:
        if exc.exit_code is None:
            raise CommandError(str(exc)) from exc
        print(f"toolcall proxy: {exc}; its exit code is {exc.exit_code}", file=sys.stderr)
        return exc.exit_code or 1


async def _relay(  # the parts of one connection
    start: _Starter, policy: RelayPolicy, stdin: int, stdout: int, journal: Path | None, store: str | None
) -> int:
    reader, writer = LineReader(stdin, policy.limits.line_bytes), LineWriter(stdout)
    caught: list[int] = []

    async def wait_for_signal(scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                caught.append(number)
                scope.cancel()

    kept = None if store is None else make_store(store)
    failed: ServerFailedError | SetupError | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(wait_for_signal, group.cancel_scope)
        try:
            relay = Relay(
                partial(start, group),
                policy,
                lambda registry: keep(make_pipeline(registry, policy, store=kept), journal),
                reader,
                writer,
            )
            async with relay.pipeline:
                await relay.run()
        except (ServerFailedError, SetupError) as exc:
            failed = exc
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed
    return to_exit_code(caught[0]) if caught else 0


def configure_telemetry(policy: RelayPolicy) -> None:
    """Set the SDK up if the policy or the environment says where spans go: to load it takes time."""
    telemetry = policy.telemetry
    if telemetry is None and not any(os.environ.get(name) for name in _EXPORT):
        return
    from ..telemetry import configure

    if telemetry is None:
        configure()
    else:
        configure(
            service_name=telemetry.service_name,
            endpoint=telemetry.endpoint,
            console=telemetry.console,
        )


def _choose_start(command: Sequence[str], url: str | None, headers: Sequence[str], policy: RelayPolicy) -> _Starter:
    if (url is None) == (not command):
        raise CommandError("give either the command of a server or --url")
    limit = policy.limits.line_bytes
    if url is None:
        if headers:
            raise CommandError("--header is for --url")

        async def start_child(_group: TaskGroup) -> Server:
            return Child.start(command, limit)

        return start_child
    from ..mcp.http_server import HttpServer, load_transport

    try:
        read_url("--url", url)
    except SetupError:  # it may hold a secret, so it is not quoted
        raise CommandError("--url must be a URL with http:// or https:// and a host") from None
    sent, address = dict(map(_read_header, headers)), url
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # each refused connection would be a stack trace
    transport = load_transport()

    async def connect(group: TaskGroup) -> Server:
        server = HttpServer(transport, address, sent, limit)
        await group.start(server.serve)
        return server

    return connect


def _read_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    name = name.strip()
    if not colon or not _HEADER_NAME.fullmatch(name):
        raise CommandError("--header must be 'Name: value'")  # as above
    for variable in _VARIABLE.findall(value):
        if variable not in os.environ:
            raise CommandError(f"--header {name}: the environment has no variable {variable}")
    filled = _VARIABLE.sub(lambda found: os.environ[found[1]], value).strip()
    if not (filled.isascii() and filled.isprintable()):
        raise CommandError(f"--header {name}: the value must be ASCII, and one line")
    return name, filled
