"""OfferedTools: the tools of a server, kept in a registry. A changed tool is held back until it is accepted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, cast

import attrs

from ..base.setup_error import SetupError
from ..engine.errors import Unavailable
from ..privacy import get_logger, neutralise
from ..tools import Effect, Tool, ToolContext, ToolRegistry
from ..tools.output_forms import make_form
from .tool_definitions import (
    escape_description,
    escape_name,
    escape_schema,
    make_fingerprint,
    make_tool,
    read_effect,
    read_name,
)

_LOG = get_logger()
_MAX_PINS: Final = 10_000  # fingerprints that are kept of one server
CHANGED: Final = "changed"  # why a tool is closed that is held back

# The body of a tool: its name in the registry, its name at the server, the context and the arguments.
CallTool = Callable[[str, str, ToolContext, dict[str, Any]], Awaitable[object]]


@attrs.frozen
class Offer:
    """A tool as a server offers it now."""

    name: str  # the server's
    fingerprint: str
    definition: Mapping[str, Any] = attrs.field(repr=False)


class OfferedTools:
    """The tools of one server in a registry.

    Args:
        registry: Where they are kept, beside any others.
        call: The body of each tool.
        prefix: Put before the name of each.
        trust: Whether the annotations are believed.
        effects: Effects by the server's names, which count more than annotations.
        fingerprints: Those that are accepted, by the server's names.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        call: CallTool,
        *,
        prefix: str,
        trust: bool,
        effects: Mapping[str, Effect],
        fingerprints: Mapping[str, str],
    ) -> None:
        self._registry, self._call = registry, call
        self._prefix, self._trust, self._effects = prefix, trust, effects
        self.pins = dict(fingerprints)  # by what a model reads as the server's names
        self.offers: dict[str, Offer] = {}  # by the names in the registry
        self.held: set[str] = set()  # of these names
        self._ours: dict[str, Tool[..., Any]] = {}  # as they were put into the registry

    def replace_all(self, definitions: Iterable[object], *, first: bool) -> None:
        """Take over what the server offers now.

        Raises:
            SetupError: ``first``, and names are taken. Nothing has been registered then.
        """
        offers = self._read_all(definitions)
        taken = [name for name in offers if name not in self._ours and self._is_taken(name)]
        if taken and first:
            raise SetupError(
                f"add_server: the registry has tools of these names already: {', '.join(taken)}; give another `prefix`"
            )
        for name in taken:
            _LOG.warning("a tool of an MCP server is left out, because its name is taken: %s", name)
            del offers[name]
        for name in self.offers.keys() - offers.keys():
            self._remove(name)
        for name, offer in offers.items():
            taken_away = name in self._ours and not self._is_ours(name)  # by the application
            if self.offers.get(name) != offer and not taken_away:
                self._put(name, offer)
        self.offers = offers

    def warn_of_unknown_effects(self) -> None:
        """Log the names in ``effects`` that the server does not offer: they may be misspelt."""
        for name in sorted(self._effects.keys() - {offer.name for offer in self.offers.values()}):
            _LOG.warning("`effects` of add_server names a tool that the server does not have: %s", name)

    def accept(self, name: str) -> None:
        """Accept the definition of a tool that is held back; SetupError if none of that name is."""
        if name not in self.held:
            held = ", ".join(sorted(self.held)) or "none"
            raise SetupError(f"accept: no tool {name!r} is held back; held back: {held}")
        offer = self.offers[name]
        self.pins[escape_name(offer.name)] = offer.fingerprint
        self._put(name, offer)

    def close_all(self, reason: str) -> None:
        """Close all tools for a reason."""
        for name in filter(self._is_ours, self.offers):
            with suppress(SetupError):  # another thread took it away
                self._registry.close(Unavailable(name, reason), owner=self)

    def reopen_all(self, reason: str) -> None:
        """Take the reason away."""
        for name in filter(self._is_ours, self.offers):
            with suppress(SetupError):
                self._registry.reopen(name, reason, owner=self)

    def remove_all(self) -> None:
        """Take all tools out of the registry."""
        for name in list(self.offers):
            self._remove(name)
        self.offers = {}

    def _read_all(self, definitions: Iterable[object]) -> dict[str, Offer]:
        offers: dict[str, Offer] = {}
        for each in definitions:
            own = read_name(each)
            if own is None:
                _LOG.warning("a tool of an MCP server has no name")
                continue
            definition = cast("Mapping[str, Any]", each)
            name = self._prefix + escape_name(own)
            try:
                offer = Offer(own, make_fingerprint(definition), definition)
            except ValueError as exc:
                _LOG.warning("a tool of an MCP server is left out: %s: %s", name, exc)
                continue
            if name in offers:
                _LOG.warning("an MCP server offers two tools of one name; the first one counts: %s", name)
            elif escape_name(own) not in self.pins and len(self.pins) >= _MAX_PINS:
                _LOG.warning("an MCP server has offered too many tools; left out: %s", name)
            else:
                offers[name] = offer
        return offers

    def _put(self, name: str, offer: Offer) -> None:
        pinned = self.pins.setdefault(escape_name(offer.name), offer.fingerprint)
        if pinned == offer.fingerprint:
            self._publish(self._make(name, offer))
            self._registry.reopen(name, CHANGED, owner=self)
            self.held.discard(name)
            return
        _LOG.warning("a tool of an MCP server is held back, because its definition changed: %s", name)
        self.held.add(name)
        if not self._is_ours(name):  # so that its new words are never shown, not even for a moment
            self._publish(self._make(name, Offer(offer.name, offer.fingerprint, {})))
        self._registry.close(Unavailable(name, CHANGED), owner=self)

    def _publish(self, tool: Tool[..., Any]) -> None:
        if self._is_ours(tool.name):
            self._registry.replace(tool)
        else:
            self._registry.register(tool)
        self._ours[tool.name] = tool

    def _remove(self, name: str) -> None:
        if self._is_ours(name):
            with suppress(SetupError):
                self._registry.unregister(name)
        self._ours.pop(name, None)
        self.held.discard(name)

    def _is_ours(self, name: str) -> bool:
        """Whether the registry still has it: the application may have replaced or removed it."""
        mine = self._ours.get(name)
        found = self._registry.tools.get(name)
        return mine is not None and found is not None and (found is mine or found.overrides is mine)

    def _is_taken(self, name: str) -> bool:
        return name in self._registry.tools or name in self._registry.aliases

    def _make(self, name: str, offer: Offer) -> Tool[..., Any]:
        definition = offer.definition
        own, call = offer.name, self._call

        async def relay(context: ToolContext, /, **arguments: Any) -> object:
            return await call(name, own, context, arguments)

        texts: dict[str, Any] = {"description": escape_description(definition.get("description"))}
        try:
            texts["inputSchema"] = escape_schema(definition.get("inputSchema"))
        except SetupError as exc:
            _LOG.warning("the arguments of %s are not validated: %s", name, exc)
        effect = self._effects.get(own) or read_effect(definition.get("annotations"), trusted=self._trust)
        tool, mistake = make_tool(name, texts, relay, effect=effect, output_schema=_read_output(name, definition))
        if mistake:
            _LOG.warning("the arguments of %s are validated in part: %s", name, neutralise(mistake))
        return tool


def _read_output(name: str, definition: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of what a tool returns; None: it has none that can be used."""
    schema = definition.get("outputSchema")
    if not isinstance(schema, Mapping):
        return None
    try:
        safe = escape_schema(cast("Any", schema))
        make_form(cast("Any", safe), name)
    except SetupError as exc:
        _LOG.warning("the output schema of %s is left out: %s", name, exc)
        return None
    return cast("Mapping[str, Any]", safe)
