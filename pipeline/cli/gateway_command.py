"""``toolcall gateway``: several servers of MCP behind one, over stdin and stdout."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import attrs

from ..base.event_loops import get_event_loop
from ..base.setup_error import SetupError
from ..policies.policy_file import read_policy
from ..policies.relay_policy import RelayPolicy
from .named_store import make_store
from .proxy_command import configure_telemetry
from .run.interruption import catch_signals, exit_without_threads, to_exit_code
from .shared_options import AS_IT_IS, Worded
from .terminal_text import CommandError


def gateway(
    config: Path,
    *,
    policy: Path | None,
    trust_annotations: bool,
    worded: Worded = AS_IT_IS,
    journal: Path | None = None,
    store: str | None = None,
) -> int:
    """Serve one client over stdin and stdout until it closes its end, or a signal comes."""
    try:
        said = RelayPolicy() if policy is None else read_policy(policy)
        said = attrs.evolve(said, **{name: each for name, each in worded._asdict().items() if each is not None})
        configure_telemetry(said)
        logging.getLogger("fastmcp").setLevel(logging.CRITICAL)  # each lost call would be a stack trace
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        kept = None if store is None else make_store(store)
        server = _make(config, policy=said, trust_annotations=trust_annotations, store=kept, journal=journal)
        code = anyio.run(_serve, server)
    except (ImportError, SetupError) as exc:
        raise CommandError(str(exc)) from exc
    exit_without_threads(code)  # one of them may wait for a line of stdin
    return code


def _make(config: Path, **options: Any) -> Any:
    from ..hosts import gateway as room

    make: Any = vars(room)["make_gateway"]  # its class is known where FastMCP is installed, and only there
    return make(config, **options)


async def _serve(server: Any) -> int:
    loop = get_event_loop()
    with anyio.CancelScope() as scope, catch_signals(lambda: loop.call_soon(scope.cancel)) as caught:
        await server.run_stdio_async(show_banner=False)
    return to_exit_code(caught[0]) if caught else 0
