"""The cost of ``toolcall proxy`` beside a proxy made of the SDK, and the fate of calls as servers die.

``make test-mcp`` runs it, in an environment that has the package ``mcp``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from mcp_wire import Wire, open_wire  # noqa: E402  # in the folder of the tests

SERVER = [sys.executable, "-S", str(ROOT / "tests" / "support" / "fake_mcp_server.py")]
PROXY = [sys.executable, "-m", "toolcall_pipeline", "proxy", "--"]
SDK = [sys.executable, str(Path(__file__).with_name("mcp_sdk_proxy.py"))]
MAX_SHARE = 0.5  # of what a proxy made of the SDK adds
SLICE, WINDOW = 50, 8  # calls
FIRST = 1_000_000  # the first id of a call that may be killed
TRIES = 5  # measurements that have to fall short before --check fails: a cost would be there each time


def measure(slices: int) -> bool:
    """Print the p50 of a call directly and through both proxies, in short slices that take turns."""
    times: dict[str, list[float]] = {"direct": [], "toolcall proxy": [], "SDK proxy": []}
    with open_wire(SERVER) as direct, open_wire([*PROXY, *SERVER]) as ours, open_wire([*SDK, *SERVER]) as theirs:
        wires = dict(zip(times, (direct, ours, theirs), strict=True))
        for wire in wires.values():
            wire.greet()
            wire.ask("tools/list")
            _call_many(wire, SLICE)
        for _ in range(slices):
            for name, wire in wires.items():
                times[name] += _call_many(wire, SLICE)
    p50 = {name: median(found) * 1000 for name, found in times.items()}
    ours_adds, theirs_adds = (p50[name] - p50["direct"] for name in ("toolcall proxy", "SDK proxy"))
    for name, found in p50.items():
        print(f"{name:16}{found:8.3f} ms p50 of {slices * SLICE} calls, adds {found - p50['direct']:.3f} ms")
    print(f"the proxy adds {ours_adds / theirs_adds:.0%} of what one made of the SDK adds; at most {MAX_SHARE:.0%}")
    return ours_adds <= MAX_SHARE * theirs_adds


def _call_many(wire: Wire, calls: int) -> list[float]:
    found: list[float] = []
    for number in range(calls):
        begun = time.perf_counter()
        wire.ask("tools/call", name="echo", arguments={"n": number, "text": "a short text"})
        found.append(time.perf_counter() - begun)
    return found


def kill(calls: int, every: int) -> bool:
    """Make calls that each write a line, 8 at once, and kill the server again and again."""
    log = Path(tempfile.mkdtemp()) / "log"
    answers: dict[int, list[Any]] = {}
    with open_wire([*PROXY, *SERVER, f"log:{log}"]) as wire:
        wire.greet()
        wire.ask("tools/list")
        server = int(next(each for each in wire.notes if each["method"] == "hello")["params"]["pid"])
        servers = [server]
        sent = done = 0
        while done < calls:
            while sent < calls and sent - done < WINDOW:
                params = {"name": "write", "arguments": {"n": sent}}
                wire.send({"jsonrpc": "2.0", "id": FIRST + sent, "method": "tools/call", "params": params})
                sent += 1
            _, message = wire.read()
            if message.get("method") == "hello":
                servers.append(message["params"]["pid"])
            if message.get("id", 0) >= FIRST:
                answers.setdefault(message["id"] - FIRST, []).append(message["result"])
                done += 1
                if done % every == 0:
                    os.kill(servers[-1], signal.SIGKILL)
    written = [int(line) for line in log.read_text().split()]
    succeeded = {number for number, found in answers.items() if not found[0].get("isError")}
    kinds = [found[0]["_meta"]["toolcall/kind"] for found in answers.values() if found[0].get("isError")]
    lost, unsaid = succeeded - set(written), calls - len(answers)
    twice = len(written) - len(set(written)) + sum(len(found) - 1 for found in answers.values())
    left = [pid for pid in (*servers, wire.process.pid) if Path(f"/proc/{pid}").exists()]
    print(f"{calls} calls, {len(servers) - 1} servers killed: {len(succeeded)} succeeded, ", end="")
    print(f"{ {kind: kinds.count(kind) for kind in set(kinds)} or 'none failed' }")
    print(f"not answered: {unsaid}; told of success and not made: {len(lost)}; ", end="")
    print(f"twice: {twice}; processes left: {len(left)}")
    return not (unsaid or lost or twice or left) and set(kinds) <= {"outcome_unknown", "unavailable"}


def main() -> None:
    """Run both, and fail if one of them fails."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true", help="a tenth of the calls")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bound is broken")
    options = parser.parse_args()
    share = 10 if options.short else 1
    held = [any(measure(40 // share) for _ in range(TRIES)), kill(10_000 // share, 500 // share)]
    print(json.dumps({"overhead": held[0], "kills": held[1]}))
    sys.exit(options.check and not all(held))


if __name__ == "__main__":
    main()
