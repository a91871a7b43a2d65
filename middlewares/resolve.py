"""Resolve: the name that the model wrote -> the tool; or UnknownTool, with the closest names."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any, ClassVar

from returns.result import Failure

from pipeline import Call, Placement, Repair, ResolvedCall, Tool, ToolRegistry, UnknownTool
from pipeline.tools.matching import Index, canonical, closest, without_noise

_FEW = 20  # tools that an error may list
_KEPT = 512  # unknown names whose answer is remembered: models repeat their mistakes
_LONGEST = 200  # characters of such a name: remembering must not become a way to fill the memory
_STRENGTH = {"read": 0, "idempotent": 1, "keyed": 2, "mutating": 3}


class Resolve:
    """Exact, then declared alias, the same without transport noise, and the names that adapters make for a provider.

    All else is a failure with suggestions.

    ``canonical_names=True`` also takes a name that differs in case, separators or server prefix only, if it is the
    only such one and no stronger in effect than every other near name. A likeness alone never runs a tool.
    """

    placement: ClassVar[Placement] = Placement(
        kind="resolve",
        reason="first of the checks: what follows wants to know the tool",
        owns_registry=True,
    )

    def __init__(self, registry: ToolRegistry, *, canonical_names: bool = False) -> None:
        self.registry = registry
        self.canonical_names = canonical_names
        self._tools = registry.tools
        self._wire: tuple[int, dict[str, str]] | None = None  # names as adapters send them, of a version
        self._laid_out: tuple[int, Index] | None = None  # names to suggest, of a version
        self._unknown: OrderedDict[str, tuple[int, UnknownTool]] = OrderedDict()
        self._remembering = Lock()

    def __call__(self, call: Call) -> ResolvedCall | Failure[UnknownTool]:
        """The call with its tool; what was changed in the name is in its repairs."""
        name: Any = call.name
        try:
            tool = self._tools.get(name)
        except Exception:  # noqa: BLE001  # no text, and nothing that a dict would take
            tool = None
        if tool is not None:
            return call.resolved(tool)
        if type(name) is not str:
            name = str.__str__(name) if isinstance(name, str) else ""
        known = self._unknown.get(name)
        if known is not None and known[0] == self.registry.version:
            return Failure(known[1])
        return self._searched(call, name)

    def _searched(self, call: Call, name: str) -> ResolvedCall | Failure[UnknownTool]:
        registry = self.registry
        if (tool := registry.aliases.get(name)) is not None:
            return call.resolved(tool, (Repair("name", "alias", name, tool.name),))
        clean = without_noise(name)
        if (tool := registry.tools.get(clean) or registry.aliases.get(clean)) is not None:
            return call.resolved(tool, (Repair("name", "transport_noise", name, tool.name),))
        if (own := self._from_wire(clean)) is not None and (tool := registry.tools.get(own)) is not None:
            return call.resolved(tool, (Repair("name", "provider_name", name, own),))
        if self.canonical_names and (tool := self._canonical(clean)) is not None:
            return call.resolved(tool, (Repair("name", "canonical_name", name, tool.name),))
        return self._refused(name, clean)

    def _refused(self, name: str, clean: str) -> Failure[UnknownTool]:
        version, names = self.registry.version, self.registry.callable_names()
        available = tuple(names) if len(names) <= _FEW else ()
        error = UnknownTool(name, closest(clean, self._index()), available)
        if len(name) <= _LONGEST:
            with self._remembering:
                self._unknown[name] = (version, error)
                if len(self._unknown) > _KEPT:
                    self._unknown.popitem(last=False)
        return Failure(error)

    def _index(self) -> Index:
        version = self.registry.version
        if self._laid_out is None or self._laid_out[0] != version:
            self._laid_out = (version, Index(self.registry.spellings, self.registry.callable_names()))
        return self._laid_out[1]

    def _from_wire(self, name: str) -> str | None:
        """The own name of a tool that an adapter had to call otherwise; such a name ends with a hash."""
        if name[-9:-8] != "_":
            return None
        if self._wire is None or self._wire[0] != self.registry.version:
            from pipeline.adapters.provider_names import ANTHROPIC, OPENAI, own_names

            sent = own_names(self.registry, ANTHROPIC) | own_names(self.registry, OPENAI)
            self._wire = (self.registry.version, sent)
        return self._wire[1].get(name)

    def _canonical(self, name: str) -> Tool[..., Any] | None:
        registry = self.registry
        found = canonical(name, registry.spellings)
        if len(found) != 1:
            return None
        tool = registry.tools[found[0]]
        near = [near for near in closest(name, self._index()) if near != tool.name]
        stronger = all(_STRENGTH[tool.effect] > _STRENGTH[registry.tools[other].effect] for other in near)
        return None if near and stronger else tool
