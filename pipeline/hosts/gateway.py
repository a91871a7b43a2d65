"""Gateway: several servers of MCP behind one, with one pipeline around the calls of all their tools.

FastMCP reaches the servers, names their tools and passes on all that is no call of a tool. Here stands what it leaves
open: which servers are away, and one registry for what all of them have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from os import PathLike
from typing import Any, Final, cast

import anyio
import attrs
from pydantic import ValidationError

from toolcall_pipeline.middlewares import Policy

from ..base import timing
from ..base.options import refuse
from ..base.setup_error import SetupError
from ..engine.compose import Pipeline
from ..engine.errors import Unavailable
from ..mcp.policy_pipeline import make_pipeline
from ..policies import RelayPolicy, RuleSet, read_policy
from ..privacy import get_logger, neutralise, scrub
from ..tools import Tool, ToolRegistry
from .framework import requires
from .gateway_config import GatewayConfig, GatewayServer, read_servers
from .host import Host, HostTool

with requires("fastmcp"):
    from fastmcp import FastMCP
    from fastmcp.mcp_config import RemoteMCPServer, StdioMCPServer
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.providers.proxy import ProxyClient, ProxyProvider
    from fastmcp.server.transforms import Namespace, ToolTransform
    from fastmcp.server.transforms.visibility import is_enabled
    from fastmcp.tools.tool_transform import ToolTransformConfig
    from mcp.types import ToolListChangedNotification
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    from .fastmcp import ServerAwayError, ToolcallMiddleware, describe_tool, find_tool

__all__ = ["make_gateway"]

_AWAY: Final = "disconnected"  # why the tools of a server that is away are closed
_FIRST_REST: Final = 1.0  # seconds until a server that is away is tried again; they double
_LONGEST_REST: Final = 30.0
_MAX_GUESSED: Final = 100  # names of tools that a server may have which nobody has seen
_LOG = get_logger()


def make_gateway(
    config: GatewayConfig,
    *,
    policy: str | PathLike[str] | RelayPolicy | RuleSet | Policy | None = None,
    trust_annotations: bool = False,
    name: str = "toolcall gateway",
    auth: Any = None,
    **options: Any,
) -> FastMCP:
    """Make a server of FastMCP that has the tools of several servers, and runs all their calls in one pipeline.

    With more than one server each tool is called ``PREFIX_NAME``; the prefix is the server's name in the configuration
    unless it says another. Nothing is connected before the first request.

    Args:
        config: The path of a JSON file, or what it holds, see `read_servers`.
        policy: The path of a policy file, with all that the guide of the proxy lists, or a `RelayPolicy`; or rules
            alone, as `standard` takes them, such as ``Policy(path, reload=True)``. Default None: none.
        trust_annotations: Whether hints of the servers on the effects of their tools are believed, as the option of
            the policy. Default False: each tool may change something.
        name: The name that clients are told. Default "toolcall gateway".
        auth: How clients over HTTP say who they are, see FastMCP. Default None: not at all.
        **options: Options of `standard`, such as ``store=``, ``journal=`` and ``timeout=``, and ``principal=`` and
            ``conversation=`` as of `ToolcallMiddleware`. They stand above those of the policy.

    Raises:
        SetupError: The configuration, the policy or an option is wrong.
    """
    if isinstance(policy, (RuleSet, Policy)):
        said, options["policy"] = RelayPolicy(), policy
    elif policy is None or isinstance(policy, RelayPolicy):
        said = policy or RelayPolicy()
    else:
        if not isinstance(cast("object", policy), (str, PathLike)):
            refuse("make_gateway", "policy", "the path of a policy file, a RuleSet or a Policy", policy)
        said = read_policy(policy)
    said = attrs.evolve(said, trust_annotations=said.trust_annotations or trust_annotations)
    servers: list[_Server] = []
    calls = _GatewayCalls(servers, said, options)
    servers += [_Server(each, said.limits.list_wait, calls.host) for each in read_servers(config)]

    @asynccontextmanager
    async def live(_server: Any) -> AsyncGenerator[None, None]:
        await calls.host.pipeline.ready()
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await calls.stop_trying()
                for each in servers:
                    await each.close()
                await calls.host.pipeline.aclose()

    gateway = FastMCP(name, middleware=[calls], lifespan=live, auth=auth, dereference_schemas=False)
    for server in servers:
        gateway.add_provider(server)
    return gateway


class _Connection(ProxyClient[Any]):  # type: ignore[misc, unused-ignore]  # untyped where FastMCP is missing
    """A client of one server, which tells a call that was never sent from one that was lost."""

    note_failure: Callable[[Exception], None]

    async def __aenter__(self) -> Any:
        try:
            return await super().__aenter__()  # type: ignore[no-untyped-call, unused-ignore]  # of FastMCP
        except Exception as exc:
            self.note_failure(exc)
            raise ServerAwayError from exc


class _Server(ProxyProvider):  # type: ignore[misc, unused-ignore]  # as above
    """One server: its tools, and whether it is there."""

    def __init__(self, server: GatewayServer, patience: float, host: _GatewayHost) -> None:
        self.of, self._host, self._patience = server, host, patience
        self.is_away = False
        self._rest, self._rests_until = _FIRST_REST, 0.0
        self.was_listed = False
        facts = dict(server.facts)
        renamed: dict[str, Any] = facts.pop("tools", {})
        shown, left_out = facts.pop("include_tags", None), facts.pop("exclude_tags", None)
        try:
            entry: Any = (StdioMCPServer if "command" in facts else RemoteMCPServer)(**facts)
            changed = {each: ToolTransformConfig.model_validate(how) for each, how in renamed.items()}
            self._transport = entry.to_transport()
        except ValidationError as exc:
            told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in exc.errors())
            raise SetupError(f"{server.place}: {told}") from None  # without what was given: it may hold a secret
        base: Any = _Connection(
            self._transport,
            mode="auto",  # a server may know one version of the protocol alone
            timeout=None if entry.timeout is None else entry.timeout / 1_000,
            init_timeout=patience,
            forward_incoming_headers=False,  # a client's token is for the gateway
        )
        base.note_failure = self._go_away
        self._base, self._is_remote = base, "url" in facts
        super().__init__(self._connect)  # pyright: ignore[reportUnknownMemberType]  # of FastMCP
        if changed:
            self.add_transform(ToolTransform(changed))
        if shown is not None:
            self.enable(tags=set(shown), only=True)
        if left_out is not None:
            self.disable(tags=set(left_out))
        if server.prefix:
            self.add_transform(Namespace(server.prefix))

    def _connect(self) -> Any:
        """A client for one request. Questions of a server reach a client with a handshake by a connection that has one.

        The process of a local server is shared by all clients, and so has one version of the protocol.
        """
        client = self._base.new()
        with suppress(RuntimeError):  # no request is answered
            asked = get_context().request_context
            if self._is_remote and asked is not None and asked.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                client.mode = "legacy"
        return client

    @property
    def is_due(self) -> bool:
        """Whether it is away, and has to be tried again."""
        return self.is_away and timing.monotonic() >= self._rests_until

    async def list_tools(self) -> Sequence[Any]:
        """Its tools, by the names that the gateway gives them; none while it is away."""
        tools = [each for each in await super().list_tools() if is_enabled(each)]
        if not self.is_away:
            self.was_listed = True
            self._host.learn(self, tools)
        return tools

    async def _list_tools(self) -> Sequence[Any]:
        if self.is_away and not self.is_due:
            return []
        try:
            with anyio.fail_after(self._patience):
                tools: Sequence[Any] = await super()._list_tools()
        except Exception as exc:  # noqa: BLE001  # whatever it is: the other servers have their tools
            self._go_away(exc)
            return []
        if self.is_away:
            _LOG.warning("the server %s is there again", neutralise(self.of.name))
        self.is_away, self._rest = False, _FIRST_REST
        return tools

    def _go_away(self, exc: Exception) -> None:
        if not self.is_away:
            why = scrub(str(exc.__cause__ or exc)) or type(exc).__name__
            _LOG.warning("the server %s is away, and its tools are closed: %s", neutralise(self.of.name), why)
            self.is_away = True
            self._host.close_tools(self)
        elif not self.is_due:  # a request that began before the last failure
            return
        self._rests_until = timing.monotonic() + self._rest
        self._rest = min(2 * self._rest, _LONGEST_REST)

    async def close(self) -> None:
        """End its process, or its connection."""
        with suppress(Exception):
            await self._transport.close()


class _GatewayHost(Host):
    """One registry and one pipeline for the tools of all servers, whichever of them are there."""

    registry: ToolRegistry
    pipeline: Pipeline

    def __init__(self, policy: RelayPolicy, /, **options: Any) -> None:
        self.policy = policy
        self.changes = 0  # how often the tools that a client may call became others
        self._known: dict[str, HostTool | None] = {}  # as they were offered; None: nobody has seen it
        self._owners: dict[str, _Server] = {}
        effects: Any = {name: each.effect for name, each in policy.tools.items() if each.effect is not None}
        super().__init__(effects, build=self._build_once, **options)

    def offer(self, tools: Mapping[str, HostTool]) -> Pipeline:
        """Take these tools into the registry, as they are now. Returns the pipeline of all tools."""
        for name, offered in tools.items():
            self._put(name, offered)
        return self.pipeline

    def learn(self, server: _Server, tools: Sequence[Any]) -> None:
        """Take over what a server lists, and open it."""
        before = set(self._list_open())
        listed = {each.name: each for each in tools if self._owners.setdefault(each.name, server) is server}
        for name in [name for name, owner in self._owners.items() if owner is server and name not in listed]:
            del self._owners[name], self._known[name]
            self.registry.unregister(name)
        for name, tool in listed.items():
            self._put(name, describe_tool(tool))
            self.registry.reopen(name, _AWAY)
        if before != set(self._list_open()):
            self.changes += 1

    def close_tools(self, server: _Server) -> None:
        """Close the tools of a server that is away."""
        for name, owner in self._owners.items():
            if owner is server and name in self.registry:
                self.registry.close(Unavailable(name, _AWAY))
        self.changes += 1

    def guess(self, name: str, server: _Server) -> None:
        """Note that a server which is away may have a tool of this name, so that a call of it is told why it fails."""
        guessed = sum(owner is server and self._known.get(each) is None for each, owner in self._owners.items())
        if name not in self.registry and guessed < _MAX_GUESSED:
            with suppress(SetupError):  # no tool can have such a name
                self.registry.register(super()._learn(name, HostTool()))
                self._known[name], self._owners[name] = None, server
                self.registry.close(Unavailable(name, _AWAY))

    def hides(self, name: str) -> bool:
        """Whether no call of this tool passes: the policy denies each, or it is closed, by an operator's switch too."""
        stages = [stage.obj for stage in self.pipeline.entries if isinstance(stage.obj, Policy)]
        return name in self.registry and (
            name in self.registry.closed or any(each.rules.denies_all(self.registry[name]) for each in stages)
        )

    def _list_open(self) -> list[str]:
        return [name for name in self.registry.tools if name not in self.registry.closed]

    def _put(self, name: str, offered: HostTool) -> None:
        if not self.policy.trust_annotations:
            offered = attrs.evolve(offered, effect=None)
        if self._known.get(name) == offered:
            return
        self._known[name] = offered
        made = self._learn(name, offered)
        if name in self.registry:
            self.registry.replace(made)
        else:
            self.registry.register(made)
        if self.policy.of_tool(name).closed:
            self.registry.disable(name)

    def _learn(self, name: str, offered: HostTool) -> Tool[..., Any]:
        self._made.pop(name, None)  # the registry has the one that counts
        return super()._learn(name, offered)

    def _more_facts(self, name: str) -> dict[str, Any]:
        said = self.policy.of_tool(name)
        return {"timeout": said.timeout, "attempts": said.attempts, "verify_with": said.verify_with}

    def _build_once(self, tools: ToolRegistry, **options: Any) -> Pipeline:
        self.registry, self.pipeline = tools, make_pipeline(tools, self.policy, **options)
        return self.pipeline


class _GatewayCalls(ToolcallMiddleware):
    """Puts the pipeline around the calls, and tries servers again that are away."""

    host: _GatewayHost

    def __init__(self, servers: list[_Server], policy: RelayPolicy, options: Mapping[str, Any]) -> None:
        self._servers, self._policy = servers, policy
        self._has_warned = False
        self._told = 0  # the number of changes that clients know of
        self._trying: set[asyncio.Task[Any]] = set()
        super().__init__(None, **options)

    def _make_host(self, _effects: Any, /, **options: Any) -> Host:
        return _GatewayHost(self._policy, **options)

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        """The tools of the servers that are there, without those that may not be called."""
        tools = await call_next(context)
        self._told = self.host.changes
        if not self._has_warned and all(each.was_listed for each in self._servers):
            self._has_warned = True
            for mistake in self._policy.find_unknown_tools(self.host.registry.tools):
                _LOG.warning("%s", mistake)
        return [each for each in tools if not self.host.hides(each.name)]

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        """Run one call, and tell the client if there are other tools than it was shown."""
        try:
            return await super().on_call_tool(context, call_next)
        finally:
            if self._told != self.host.changes:
                self._told = self.host.changes
                with suppress(Exception):  # the client may be gone, or hear no notifications
                    await context.fastmcp_context.send_notification(ToolListChangedNotification())

    async def _find_offered(self, server: Any, sent: str, version: Any) -> tuple[str, dict[str, Any]]:
        owners = [each for each in self._servers if each.of.find_tool(sent) is not None]
        for each in self._servers:
            if each.is_due and each not in owners:
                self._try_again(each)
        for each in owners:
            if each.is_due or not each.was_listed:
                await each.list_tools()
        name, asked = await find_tool(server, sent, version)
        if asked is not None:
            return name, {name: asked}
        away = next((each for each in owners if each.is_away), None)
        if away is not None:
            self.host.guess(name, away)
        elif not all(each.was_listed or each.is_away for each in self._servers):
            await server.list_tools(run_middleware=False)  # so that the nearest of all names is suggested
        return name, {}

    async def stop_trying(self) -> None:
        for task in self._trying:
            task.cancel()
        await asyncio.gather(*self._trying, return_exceptions=True)

    def _try_again(self, server: _Server) -> None:
        task = asyncio.create_task(server.list_tools())
        self._trying.add(task)
        task.add_done_callback(self._trying.discard)
