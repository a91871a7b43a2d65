"""Real HTTP clients in tools, and a server that fails: what a call comes to, and what took effect.

``python tests/support/http_clients.py`` prints the table: client, fault and effect; kind,
attempts, and effects on the server.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import aiohttp
import anthropic
import anyio
import click
import httpx
import httpx2
import openai
import requests
import urllib3

from faulty_server import FAULTS, FaultyServer
from support import a_tool
from toolcall_pipeline import Call, Effect, Outcome, ToolContext, ToolRegistry, is_failure
from toolcall_pipeline.middlewares import Retry, standard
from toolcall_pipeline.tools import is_async

EFFECTS: tuple[Effect, ...] = ("read", "keyed", "mutating")
_SHORT, _LONG = 0.1, 30.0  # seconds: where the server hangs, and where a slow machine must not look like it
Send: TypeAlias = Callable[[str, str, float], Any]  # address, idempotency key, seconds


class Row(NamedTuple):
    """What became of one call."""

    client: str
    fault: str
    effect: Effect
    kind: str
    attempts: int
    effects: int
    outcome: Outcome
    waits: tuple[float, ...]


async def by_httpx(url: str, key: str, seconds: float) -> None:
    async with httpx.AsyncClient(timeout=seconds, verify=False) as client:
        (await client.post(url, json={}, headers={"Idempotency-Key": key})).raise_for_status()


async def by_httpx2(url: str, key: str, seconds: float) -> None:
    async with httpx2.AsyncClient(timeout=seconds, verify=False) as client:
        (await client.post(url, json={}, headers={"Idempotency-Key": key})).raise_for_status()


async def by_aiohttp(url: str, key: str, seconds: float) -> None:
    limits = aiohttp.ClientTimeout(seconds)
    async with (
        aiohttp.ClientSession(timeout=limits, raise_for_status=True) as client,
        client.post(url, json={}, headers={"Idempotency-Key": key}) as response,
    ):
        await response.read()


def by_requests(url: str, key: str, seconds: float) -> None:
    with requests.Session() as client:
        client.post(url, json={}, headers={"Idempotency-Key": key}, timeout=seconds).raise_for_status()


def by_urllib(url: str, key: str, seconds: float) -> None:
    request = urllib.request.Request(url, b"{}", {"Idempotency-Key": key}, method="POST")
    with urllib.request.urlopen(request, timeout=seconds) as response:
        response.read()


def by_urllib3(url: str, key: str, seconds: float) -> None:
    with urllib3.PoolManager(retries=urllib3.Retry(0), timeout=seconds) as client:
        client.request("POST", url, body=b"{}", headers={"Idempotency-Key": key})


async def by_openai(url: str, key: str, seconds: float) -> None:
    http = httpx2.AsyncClient(verify=False)  # to read the certificates takes longer than all the rest
    async with openai.AsyncOpenAI(
        base_url=url, api_key="k", max_retries=0, timeout=seconds, http_client=http
    ) as client:
        await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "x"}], extra_headers={"Idempotency-Key": key}
        )


async def by_anthropic(url: str, key: str, seconds: float) -> None:
    http = httpx2.AsyncClient(verify=False)
    async with anthropic.AsyncAnthropic(
        base_url=url, api_key="k", max_retries=0, timeout=seconds, http_client=http
    ) as client:
        await client.messages.create(
            model="m",
            max_tokens=9,
            messages=[{"role": "user", "content": "x"}],
            extra_headers={"Idempotency-Key": key},
        )


CLIENTS: dict[str, Send] = {
    "httpx": by_httpx,
    "httpx2": by_httpx2,
    "aiohttp": by_aiohttp,
    "requests": by_requests,
    "urllib": by_urllib,
    "urllib3": by_urllib3,
    "openai": by_openai,
    "anthropic": by_anthropic,
}


def runs_of(client: str) -> Iterator[tuple[str, Effect]]:
    """The faults that a client can meet; urllib3 raises nothing for a status."""
    for fault in FAULTS:
        if client != "urllib3" or not fault[0].isdigit():
            for effect in EFFECTS:
                yield fault, effect


def send_once(send: Send, url: str, effect: Effect, seconds: float = _LONG) -> Any:
    """The body of a tool that sends one request; with the key of the call, if the tool is keyed."""

    async def send_in_loop(context: ToolContext, **_: object) -> str:
        await send(url, context.idempotency_key if effect == "keyed" else "", seconds)
        return "sent"

    def send_in_thread(context: ToolContext, **_: object) -> str:
        send(url, context.idempotency_key if effect == "keyed" else "", seconds)
        return "sent"

    return send_in_loop if is_async(send) else send_in_thread


async def run(server: FaultyServer, client: str, fault: str, effect: Effect) -> Row:
    """Call a tool whose body is one request."""
    name = f"{client}-{fault.replace(' ', '-')}-{effect}"
    seconds = _SHORT if fault in ("hang", "stalled") else _LONG
    body = send_once(CLIENTS[client], server.url(fault, name), effect, seconds)
    outcome, attempts, waits = await call(body, effect)
    kind = outcome.failure().kind if is_failure(outcome) else "success"
    return Row(client, fault, effect, kind, attempts, server.count_effects(name), outcome, waits)


async def call(body: Any, effect: Effect, **options: Any) -> tuple[Outcome, int, tuple[float, ...]]:
    """The outcome of a tool with this body, how many attempts there were, and how long it would have waited."""
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    tools = ToolRegistry()
    tools.register(a_tool(fn=body, effect=effect, context=True, **options))
    pipeline = standard(tools).replace("retry", Retry(3, sleep=wait, jitter=lambda: 0.5))
    report = await pipeline.report(Call("probe", {}))
    assert report.outcome is not None
    return report.outcome, len(report.attempts), tuple(waits)


async def main() -> None:
    """Print the table."""
    click.echo(f"{'client':10} {'fault':15} {'effect':9} {'kind':16} {'attempts':>8} {'effects':>8}")
    with FaultyServer() as server:
        for client in CLIENTS:
            for fault, effect in runs_of(client):
                row = await run(server, client, fault, effect)
                click.echo(f"{client:10} {fault:15} {effect:9} {row.kind:16} {row.attempts:8} {row.effects:8}")


if __name__ == "__main__":
    anyio.run(main)
