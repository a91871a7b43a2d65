"""What of a call may be recorded. Each report, span, event, row and log record is made from what this lets through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import attrs

from ..call import Call, ValidCall
from ..errors import Repair
from ..privacy import REDACTED, Redact
from .nested_calls import NestedCalls, may_nest

if TYPE_CHECKING:
    from ..parameters.secrets.secret_guard import SecretGuard
    from ..tools.definition import Tool

Mask: TypeAlias = Callable[[str], str]  # takes the known secrets of a call out of a text
E = TypeVar("E")
_MAX_COMPILED = 100  # tools whose parameters are compiled to learn whether they declare secrets
_NAMES = frozenset(("landed", "tool", "verify_with"))  # fields of errors that hold no text from outside
_NOTHING: tuple[object, ...] = (None, "", {})


@attrs.frozen
class Recorded:
    """What may be recorded of one call.

    Args:
        call: The call, with arguments that may be recorded.
        repairs: Its repairs, with values that may be recorded.
        mask: Takes its secrets out of a text. None: it has none.
        redact: The application's own. None: there is none.
    """

    call: Call
    repairs: tuple[Repair, ...] = ()
    mask: Mask | None = None
    redact: Redact | None = None

    def hide(self, text: str) -> str:
        """The text without the secrets of the call."""
        return text if self.mask is None else self.mask(text)

    def show(self, text: str, path: str) -> str:
        """A text of the call without its secrets, and as the application's own ``redact`` returns it for that path."""
        text = self.hide(text)
        if self.redact is None:
            return text
        from ..parameters.secrets.redaction import Redaction

        shown = Redaction(None, self.redact).redact_at((), text, path)
        return shown if isinstance(shown, str) else REDACTED


@attrs.frozen
class Recording:
    """Decides what may be recorded of the calls of one pipeline.

    Args:
        registries: Where the pipeline finds its tools.
        redact: Called with the path and the value of each value that is to be recorded. None: there is none.
    """

    registries: Sequence[Iterable[Tool[..., Any]]] = ()
    redact: Redact | None = None
    _known: dict[str, object] = attrs.field(factory=dict[str, object], init=False, repr=False, eq=False)

    def record(
        self,
        call: Call,
        tool: Tool[..., Any] | None,
        repairs: tuple[Repair, ...] = (),
        params: Mapping[str, Any] | None = None,
    ) -> Recorded:
        """The call as it may be recorded. Never raises.

        Args:
            call: The call as it was sent.
            tool: The tool that was found. None: no tool was.
            repairs: Those of the call.
            params: What became of its arguments, if they were valid. Default None: nobody knows.

        Where no tool was found, nobody knows which of the arguments are secret: they are withheld if any tool of the
        pipeline declares a secret, since the name may be a misspelt one of that tool.
        """
        try:
            guard = find_guard(tool)
            if tool is not None and guard is None and may_nest(call.arguments) and self._may_hold_secrets():
                return self._record_nested(call, repairs)
            if guard is None and self.redact is None:
                withheld = tool is None and call.arguments not in _NOTHING and self._may_hold_secrets()
                return Recorded(_with(call, REDACTED) if withheld else call, repairs)
            recorded = self._record(call, tool, guard, repairs)
            return recorded if guard is None else attrs.evolve(recorded, mask=_make_mask(guard, call, params))
        except Exception:  # noqa: BLE001  # a foreign mapping may raise anything, and so may a type without a schema
            return Recorded(
                _with(call, REDACTED), tuple(attrs.evolve(each, before=REDACTED, after=REDACTED) for each in repairs)
            )

    def _record(
        self,
        call: Call,
        tool: Tool[..., Any] | None,
        guard: SecretGuard | None,
        repairs: tuple[Repair, ...],
        *,
        known: bool = False,
    ) -> Recorded:
        from ..parameters.secrets.redaction import Redaction

        if tool is None and not known and call.arguments not in _NOTHING and self._may_hold_secrets():
            return Recorded(_with(call, REDACTED), repairs, None, self.redact)
        redaction = Redaction(None if guard is None else guard.schema, self.redact)
        if self.redact is not None:  # what is secret was taken out of them when they were made
            only_hook = Redaction(None, self.redact)
            repairs = tuple(
                attrs.evolve(
                    each,
                    before=only_hook.redact_at((), each.before, each.path),
                    after=only_hook.redact_at((), each.after, each.path),
                )
                for each in repairs
            )
        return Recorded(_with(call, redaction.redact(call.arguments)), repairs, None, self.redact)

    def _record_nested(self, call: Call, repairs: tuple[Repair, ...]) -> Recorded:
        """The call of a tool without secrets of its own, whose arguments may hold calls of others, as in a batch."""
        from ..parameters.secrets.known_texts import TextCollector

        collector = TextCollector()
        nested = NestedCalls(self._find_guard, collector)
        shown = _with(call, nested.redact(call.arguments))
        if shown is not call:
            repairs = tuple(
                attrs.evolve(each, before=nested.redact(each.before), after=nested.redact(each.after))
                for each in repairs
            )
        recorded = self._record(shown, None, None, repairs, known=True) if self.redact else Recorded(shown, repairs)
        return attrs.evolve(recorded, mask=collector.make_mask()) if shown is not call else recorded

    def _find_guard(self, name: str) -> SecretGuard | None:
        for registry in self.registries:
            for tool in registry:
                if tool.name == name or name in tool.aliases:
                    return find_guard(tool)
        if self._may_hold_secrets():
            raise LookupError(name)
        return None

    def _may_hold_secrets(self) -> bool:
        """Whether a tool of the pipeline declares a secret; looked up again when a registry has changed."""
        versions = tuple(getattr(registry, "version", None) for registry in self.registries)
        if self._known.get("versions") != versions or None in versions:
            self._known["holds"] = self._look_for_secrets()
            self._known["versions"] = versions
        return bool(self._known["holds"])

    def _look_for_secrets(self) -> bool:
        compiled = 0
        for registry in self.registries:
            for tool in registry:
                if not tool.parameters.is_compiled:
                    compiled += 1
                    if compiled > _MAX_COMPILED:
                        return True
                if find_guard(tool) is not None:
                    return True
        return False


def find_guard(tool: Tool[..., Any] | None) -> SecretGuard | None:
    """The guard of a tool's secrets; None if it declares none. Compiles its parameters.

    Raises:
        SetupError: They do not compile.
    """
    if tool is None:
        return None
    parameters = tool.parameters
    if not parameters.is_compiled:
        parameters.compile()
    return parameters.secrets


def make_mask(call: Call, tool: Tool[..., Any] | None, params: Mapping[str, Any] | None = None) -> Mask | None:
    """A function that takes the secrets of a call out of a text. None if its tool declares none, or is not compiled.

    A tool whose parameters were not compiled has not run. For the ``params`` see `Recording.record`.
    """
    guard = None if tool is None else tool.parameters.secrets
    return None if guard is None else _make_mask(guard, call, params)


def _make_mask(guard: SecretGuard, call: Call, params: Mapping[str, Any] | None) -> Mask:
    collector = guard.collect(call.arguments)
    params = call.params if isinstance(call, ValidCall) else params
    if params is not None:  # in which the names are the declared ones
        collector.texts |= guard.collect(params).texts
    return collector.make_mask()


def mask_error(error: E, mask: Mask) -> E:
    """The error without the secrets of its call: a tool may repeat them in a text that it approves."""
    changed: dict[str, Any] = {}
    for field in attrs.fields(cast("Any", type(error))):
        held: Any = getattr(error, field.name)
        if field.metadata:  # private
            continue
        if isinstance(held, str) and field.name not in _NAMES:
            shown: Any = mask(held)
        elif isinstance(held, tuple):
            items = cast("tuple[Any, ...]", held)
            shown = tuple(mask_error(each, mask) if attrs.has(cast("Any", type(each))) else each for each in items)
        elif attrs.has(cast("Any", type(held))):
            shown = mask_error(held, mask)
        else:
            continue
        if shown != held:
            changed[field.name] = shown
    return attrs.evolve(cast("Any", error), **changed) if changed else error


def _with(call: Call, arguments: object) -> Call:
    return call if arguments is call.arguments else attrs.evolve(call, arguments=arguments)
