"""Redact calls: every report, span, event, row and log record is made from a call that this module redacted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import attrs

from ..engine.call import Call, ValidCall
from ..engine.errors import Repair
from .escaping import CUT
from .public_text import REDACTED, Redact

if TYPE_CHECKING:
    from ..tools.definition import Tool
    from .masking import TextCollector
    from .secret_guard import SecretGuard

Mask: TypeAlias = Callable[[str], str]  # removes the known secrets of a call from a text
_Known: TypeAlias = dict[tuple[int, int], object]  # what parts were made into, by their ids and the levels left
E = TypeVar("E")
_MAX_COMPILED = 100  # tools whose parameters are compiled to learn whether they declare secrets
_PLAIN_FIELDS = frozenset(("landed", "tool", "verify_with"))  # fields of errors without text from outside
_NOTHING: tuple[object, ...] = (None, "", {})
_NAME_KEYS: Final = ("tool", "tool_name", "name", "requested_tool", "function")  # keys of the name of a tool
_ARGUMENT_KEYS: Final = frozenset(("args", "arguments", "parameters", "input"))  # keys of its arguments
_OPENING: Final = ("{", "[")  # text that begins so may hold a call
_NO_CALLS = frozenset((int, float, bool, type(None)))  # most values: to ask for a Mapping takes ten times as long
_MAX_DEPTH = 16  # levels of arguments that are searched for calls
_MAX_TEXT = 1_000_000  # characters of arguments sent as text
_MAX_MASKED = 5_000  # values whose texts are masked one by one, of a call that repeats its secret
_MAX_ERROR_TEXT = 100_000  # characters of a text in an error; a model is shown less


@attrs.frozen
class RedactedCall:
    """One call, as it may be recorded.

    Args:
        call: The call, with arguments that may be recorded.
        repairs: Its repairs, with values that may be recorded.
        mask: Removes its secrets from a text. None: it has no secrets.
        hook: The application's own ``redact``, or None.
    """

    call: Call
    repairs: tuple[Repair, ...] = ()
    mask: Mask | None = None
    hook: Redact | None = None

    def hide(self, text: str) -> str:
        """Return the text without the secrets of the call."""
        return text if self.mask is None else self.mask(text)

    def show(self, text: str, path: str) -> str:
        """Return a text without the call's secrets, and as the application's ``redact`` returns it for that path."""
        text = self.hide(text)
        if self.hook is None:
            return text
        from .redaction import Redaction

        shown = Redaction(None, self.hook).redact_at((), text, path)
        return shown if isinstance(shown, str) else REDACTED


@attrs.frozen
class RedactionPolicy:
    """Redacts the calls of one pipeline.

    Args:
        registries: Where the pipeline finds its tools.
        hook: Called with the path and the value of each value that is to be recorded. None: there is none.
    """

    registries: Sequence[Iterable[Tool[..., Any]]] = ()
    hook: Redact | None = None
    _known: dict[str, object] = attrs.field(factory=dict[str, object], init=False, repr=False, eq=False)

    def redact(
        self,
        call: Call,
        tool: Tool[..., Any] | None,
        repairs: tuple[Repair, ...] = (),
        params: Mapping[str, Any] | None = None,
    ) -> RedactedCall:
        """Redact a call for reports, spans and logs. Never raises.

        Args:
            call: The call as it was sent.
            tool: The tool that was found. None: no tool.
            repairs: The repairs of the call.
            params: The params that its arguments became. Default None: they were not valid, or are unknown.

        If no tool was found, any argument may be secret: they are withheld if any tool of the pipeline declares a
        secret, because the requested name may be a misspelling of that tool's name.
        """
        try:
            guard = find_guard(tool)
            if tool is not None and guard is None and may_nest(call.arguments) and self._may_hold_secrets():
                return self._redact_nested(call, repairs)
            if guard is None and self.hook is None:
                withheld = tool is None and call.arguments not in _NOTHING and self._may_hold_secrets()
                return RedactedCall(_with(call, REDACTED) if withheld else call, repairs)
            redacted = self._redact_one(call, tool, guard, repairs)
            if guard is None:
                return redacted
            mask = _make_mask(guard, call, params)
            shown = _with(redacted.call, mask_arguments(redacted.call.arguments, mask))
            return attrs.evolve(redacted, call=shown, mask=mask)
        except Exception:  # noqa: BLE001  # a foreign mapping may raise anything, and so may a type without a schema
            return RedactedCall(
                _with(call, REDACTED), tuple(attrs.evolve(each, before=REDACTED, after=REDACTED) for each in repairs)
            )

    def _redact_one(
        self,
        call: Call,
        tool: Tool[..., Any] | None,
        guard: SecretGuard | None,
        repairs: tuple[Repair, ...],
        *,
        known: bool = False,
    ) -> RedactedCall:
        from .redaction import Redaction

        if tool is None and not known and call.arguments not in _NOTHING and self._may_hold_secrets():
            return RedactedCall(_with(call, REDACTED), repairs, None, self.hook)
        redaction = Redaction(None if guard is None else guard.schema, self.hook)
        if self.hook is not None:  # what is secret was taken out of them when they were made
            only_hook = Redaction(None, self.hook)
            repairs = tuple(
                attrs.evolve(
                    each,
                    before=only_hook.redact_at((), each.before, each.path),
                    after=only_hook.redact_at((), each.after, each.path),
                )
                for each in repairs
            )
        return RedactedCall(_with(call, redaction.redact(call.arguments)), repairs, None, self.hook)

    def _redact_nested(self, call: Call, repairs: tuple[Repair, ...]) -> RedactedCall:
        """Redact a call of a tool without own secrets whose arguments may hold calls of other tools, as in a batch."""
        from .masking import TextCollector

        collector = TextCollector()
        nested = NestedCalls(self._find_guard, collector)
        shown = _with(call, nested.redact(call.arguments))
        if shown is not call:
            repairs = tuple(
                attrs.evolve(each, before=nested.redact(each.before), after=nested.redact(each.after))
                for each in repairs
            )
        redacted = (
            self._redact_one(shown, None, None, repairs, known=True) if self.hook else RedactedCall(shown, repairs)
        )
        return attrs.evolve(redacted, mask=collector.make_mask()) if shown is not call else redacted

    def _find_guard(self, name: str) -> SecretGuard | None:
        for registry in self.registries:
            for tool in registry:
                if tool.name == name or name in tool.aliases:
                    return find_guard(tool)
        if self._may_hold_secrets():
            raise LookupError(name)
        return None

    def _may_hold_secrets(self) -> bool:
        """Whether a tool of the pipeline declares a secret. The answer is kept until a registry changes."""
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
    """Return the guard of a tool's secrets; None if it declares none. Compiles its parameters.

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
    """Make a function that removes a call's secrets from a text. None if its tool declares none, or is not compiled.

    A tool whose parameters were not compiled has not run. For the ``params`` see `RedactionPolicy.redact`.
    """
    guard = None if tool is None else tool.parameters.secrets
    return None if guard is None else _make_mask(guard, call, params)


def _make_mask(guard: SecretGuard, call: Call, params: Mapping[str, Any] | None) -> Mask:
    collector = guard.collect(call.arguments)
    params = call.params if isinstance(call, ValidCall) else params
    if params is not None:  # their names are the declared ones
        collector.add_all(guard.collect_params(params))
    return collector.make_mask()


def mask_error(error: E, mask: Mask) -> E:
    """Return the error without the secrets of its call: a tool may repeat them in a text that it approves."""
    changed: dict[str, Any] = {}
    for field in attrs.fields(cast("Any", type(error))):
        held: Any = getattr(error, field.name)
        if field.metadata:  # private
            continue
        if isinstance(held, str) and field.name not in _PLAIN_FIELDS:
            shown: Any = mask(held if len(held) <= _MAX_ERROR_TEXT else held[:_MAX_ERROR_TEXT] + CUT)
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


def mask_arguments(arguments: object, mask: Mask) -> object:
    """Mask the secrets of a call in its other arguments: a model may send the password in the URL as well."""
    if arguments in _NOTHING:
        return arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    if len(text) > _MAX_TEXT:
        return REDACTED
    if mask(text) == text:
        return arguments
    if not isinstance(arguments, str):
        return mask_texts(arguments, mask)
    held = _read(arguments)
    return json.dumps(mask_texts(held, mask), ensure_ascii=False, default=str) if held else mask(text)


def mask_texts(value: Any, mask: Mask, left: Iterator[int] | None = None) -> Any:
    """Return a value of JSON with its texts and names as ``mask`` returns them; of thousands, the rest is withheld."""
    left = iter(range(_MAX_MASKED)) if left is None else left
    if next(left, None) is None:
        return REDACTED
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        shown: dict[Any, Any] = {}
        for name, each in cast("Mapping[Any, Any]", value).items():
            numbered = f"{REDACTED} {len(shown) + 1}"  # a place in the object, also where a secret is that digit
            named = mask(name) if isinstance(name, str) and name != numbered else name
            shown[named if named not in shown else f"{named} {len(shown) + 1}"] = mask_texts(each, mask, left)
        return shown
    if isinstance(value, (list, tuple)):
        return [mask_texts(each, mask, left) for each in cast("Sequence[Any]", value)]
    return value


def _with(call: Call, arguments: object) -> Call:
    return call if arguments is call.arguments else attrs.evolve(call, arguments=arguments)


@attrs.frozen
class NestedCalls:
    """Redacts arguments that hold calls of other tools, as a batch has them, by the declarations of those tools.

    Args:
        find: Returns the guard of the tool of that name; None if it declares no secrets. Raises LookupError for an
            unknown name if any tool declares secrets.
        collector: Gets the withheld values.
    """

    find: Callable[[str], SecretGuard | None]
    collector: TextCollector

    def redact(self, arguments: object) -> object:
        """Redact the arguments; return the same object if nothing changes."""
        if not isinstance(arguments, str):
            return self._redact(arguments, _MAX_DEPTH, {})
        held = _read(arguments)
        redacted = self._redact(held, _MAX_DEPTH, {})
        return arguments if redacted is held else json.dumps(redacted, ensure_ascii=False, default=str)

    def _redact(self, value: Any, depth: int, known: _Known) -> object:
        if isinstance(value, str):
            may_hold_call = value.lstrip().startswith(_OPENING) and _may_name_arguments(value)
            return self.redact(value) if may_hold_call else value
        if depth == 0 or not isinstance(value, (list, tuple, Mapping)):
            return value
        # A part that occurs again is redacted once: eight levels of nine references are 43 million parts.
        place = id(cast("object", value)), depth
        if place not in known:
            known[place] = (
                self._redact_object(cast("Mapping[Any, Any]", value), depth, known)
                if isinstance(value, Mapping)
                else self._redact_items(cast("Sequence[Any]", value), depth, known)
            )
        return known[place]

    def _redact_items(self, items: Sequence[Any], depth: int, known: _Known) -> object:
        made = [self._redact(each, depth - 1, known) for each in items]
        return items if all(map(is_, made, items)) else made

    def _redact_object(self, found: Mapping[Any, Any], depth: int, known: _Known) -> object:
        name = next((found[key] for key in _NAME_KEYS if isinstance(found.get(key), str)), None)
        made = {
            key: self._redact_arguments(name, each, known)
            if name is not None and key in _ARGUMENT_KEYS
            else self._redact(each, depth - 1, known)
            for key, each in found.items()
        }
        return found if all(made[key] is found[key] for key in made) else made

    def _redact_arguments(self, name: str, arguments: Any, known: _Known) -> object:
        try:
            guard = self.find(name)
        except LookupError:
            self.collector.add(arguments, declared=False)
            return REDACTED
        if guard is not None and self.collector.is_full:
            return REDACTED
        if guard is None:
            return self._redact(arguments, _MAX_DEPTH - 1, known)
        self.collector.add_all(guard.collect(arguments))
        return guard.redact(arguments)


def may_nest(arguments: object) -> bool:
    """Whether arguments may hold a call, by a quick look."""
    if isinstance(arguments, str):
        return _may_name_arguments(arguments)
    if type(arguments) is not dict and not isinstance(arguments, Mapping):
        return False
    held = cast("Mapping[Any, Any]", arguments)
    return not _ARGUMENT_KEYS.isdisjoint(held) or any(map(_may_hold_call, held.values()))


def _may_name_arguments(text: str) -> bool:
    return any(key in text for key in _ARGUMENT_KEYS)


def _may_hold_call(value: object) -> bool:
    if type(value) in _NO_CALLS:
        return False
    return isinstance(value, (list, tuple, Mapping)) or (isinstance(value, str) and value.lstrip().startswith(_OPENING))


def _read(text: str) -> Any:
    from ..parameters.reading import read_literal

    return read_literal(text) if len(text) <= _MAX_TEXT else None
