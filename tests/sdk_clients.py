"""Real SDKs of services in tools, and a server that fails: the kind, the wait, and the proof that nothing happened.

``make test-clients`` runs this, in an environment of its own. No SDK repeats a request by itself here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from client_names import find_missing
from faulty_server import BODY, FaultyServer
from sdk_calls import CLIENTS
from support import a_tool
from toolcall_pipeline import Effect, ToolRegistry
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.tools import is_async

pytestmark = pytest.mark.filterwarnings("ignore")  # what the SDKs warn of is not ours

# Fault, kind, and the wait in seconds.
FAULTS: dict[str, tuple[str, float | None]] = {
    "400": ("execution", None),
    "401": ("configuration", None),
    "403": ("permission", None),
    "403 at a reset": ("transient", 30.0),
    "404": ("not_found", None),
    "409": ("execution", None),
    "422": ("execution", None),
    "429": ("transient", None),
    "429 in seconds": ("transient", 2.0),
    "429 in decimals": ("transient", 1.5),
    "429 at a date": ("transient", 4e9),
    "429 in milliseconds": ("transient", 1.5),
    "429 at a reset": ("transient", 30.0),
    "429 in html": ("transient", 2.0),
    "500": ("transient", None),
    "503 in seconds": ("transient", 3.0),
    "404 in html": ("not_found", None),
    "503 in html": ("transient", None),
    "refused": ("transient", None),
    "reset": ("transient", None),
    "closed": ("transient", None),
    "cut": ("transient", None),
    "hang": ("timeout", None),
    "stalled": ("timeout", None),
}
SLOW = ("hang", "stalled")
HTML = b"<html>hunter2</html>"
# These keep the status and no headers; of those of Tavily, what is not 503.
WITHOUT_HEADERS = {"twilio", "simple_salesforce", "tavily", "tavily_in_loop", "postgrest"}
# These say that a connection was refused, and not in a way that proves it.
WITHOUT_PROOF = {("ollama", "refused"), ("elasticsearch_in_loop", "refused")}
# PostgREST says its status in a code of the body; a limit is of what stands before it, which answers without one.
CODES = {
    "400": "22P02",
    "401": "PGRST301",
    "403": "42501",
    "404": "42P01",
    "409": "23505",
    "422": "22P02",
    "429": "429",
    "500": "XX000",
    "503": "PGRST000",
}
# What an SDK does not let happen: it repeats whatever it is told, has no time limit, or does not read a body.
NOT_SHOWN = {
    "discord": {"500", *SLOW},
    "simple_salesforce": {*SLOW},
    "atlassian": {"429 at a date"},
    "boto3": {"cut", "stalled"},
    "azure": {"cut", "stalled"},
    "postgrest": {"403 at a reset"},
}
# What an SDK itself loses: Stripe gives the headers in the place of the body, Qdrant reads whole seconds alone.
LOST = {("stripe", "429 in html"), ("qdrant", "429 in decimals"), ("qdrant", "429 at a date")}
RUNS = [(client, fault) for client in CLIENTS for fault in FAULTS if fault not in NOT_SHOWN.get(client, ())]
PACKAGES = (
    "stripe",
    "notion_client",
    "azure",
    "google",
    "discord",
    "slack_sdk",
    "elastic_transport",
    "qdrant_client",
    "pinecone",
    "tavily",
    "postgrest",
    "openai",
    "tenacity",
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # that of discord and of aiohttp


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as made:
        yield made


@pytest.mark.parametrize("package", PACKAGES)
def test_each_name_of_the_table_exists(package: str) -> None:
    """Each class that the table names is in the installed package."""
    assert find_missing(package) == set()


async def end_of(client: str, url: str, seconds: float, **options: Any) -> Any:
    """The failure of a tool whose body is one call of the SDK."""
    send = CLIENTS[client]

    async def in_loop(**_: object) -> None:
        await send(url, seconds)

    def in_thread(**_: object) -> None:
        send(url, seconds)

    tools = ToolRegistry()
    tools.register(a_tool(fn=in_loop if is_async(send) else in_thread, **options))
    return (await standard(tools, attempts=1).call("probe", {})).failure()


def wait_of(error: Any) -> float | None:
    asked: float | None = getattr(error, "retry_after", None)
    kept: float | None = error.details.retry_after
    return kept if asked is None else asked


@pytest.mark.parametrize(("client", "fault"), RUNS, ids=[f"{client}-{fault}" for client, fault in RUNS])
async def test_an_sdk_fails(server: FaultyServer, client: str, fault: str) -> None:
    """A failure of any SDK has its kind and its wait; only proof says that a tool changed nothing."""
    kind, wait = FAULTS[fault]
    if client in WITHOUT_HEADERS and not (client.startswith("tavily") and fault[:3] == "503"):
        kind, wait = "permission" if fault == "403 at a reset" else kind, None
    if (client, fault) in LOST:
        wait = None
    body = HTML if "html" in fault else BODY
    if client == "postgrest" and body is BODY and fault[:3] in CODES:
        body = f'{{"code": "{CODES[fault[:3]]}", "message": "hunter2"}}'.encode()
    url, seconds = server.always(fault, body), 1.0 if fault in SLOW else 30.0

    error = await end_of(client, url, seconds, effect="read")
    asked = wait_of(error)
    if wait == FAULTS["429 at a date"][1] and asked is not None:
        asked = round(asked + time.time(), -3)
    assert (error.kind, asked) == (kind, wait)
    if fault in SLOW:
        return
    lost = "outcome_unknown" if kind == "transient" else kind
    proved = kind == "transient" and (fault == "refused" or fault[:3] in ("403", "429"))
    effect: Effect = "mutating"
    assert (await end_of(client, url, seconds, effect=effect)).kind == lost
    once = await end_of(client, url, seconds, effect=effect, one_request=True)
    assert once.kind == ("transient" if proved and (client, fault) not in WITHOUT_PROOF else lost)
