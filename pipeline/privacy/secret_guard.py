"""Keep a tool's secrets out of its refusals and repairs, and open pydantic's secret types before parsing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from ..engine.errors import NAME_KEPT, InvalidParams, Problem, Repair
from ..parameters.schema import NOUNS
from .masking import ForeignText, Mask, SecretValues
from .public_text import PublicText, Redact
from .redaction import Redaction
from .secret_places import SecretSchema, read_path

if TYPE_CHECKING:
    from ..parameters.tool_parameters import Parse

_TYPES = frozenset(NOUNS.values())
_REFUSED: Final = PublicText("the tool refused it")
_DICT: Any = dict  # by this name a type checker does not narrow a value to a dict of unknown things


@attrs.frozen
class SecretGuard:
    """Keeps the secrets of one tool out of texts and records about its calls."""

    schema: SecretSchema

    def guard(self, parse: Parse) -> Parse:
        """Wrap a parser, so that its refusals quote no secret.

        It also takes pydantic's secret types, as a caller of ``pipeline.run`` passes them: as JSON they would become
        asterisks.
        """

        def parse_guarded(arguments: Any) -> Any:
            found = parse(_reveal(arguments) if type(arguments) is _DICT else arguments)
            return self.hide(found, arguments) if type(found) is InvalidParams else found

        return parse_guarded

    def redact(self, arguments: object, hook: Redact | None = None) -> object:
        """Redact the arguments for a record."""
        return Redaction(self.schema, hook).redact(arguments)

    def redact_all(self, arguments: object) -> object:
        """Redact the arguments, and the secrets that were also sent in other arguments."""
        values = SecretValues()
        shown = Redaction(self.schema, None, values).redact(arguments)
        return Mask(lambda: values).arguments(shown)

    def make_mask(
        self, arguments: object, params: Mapping[str, Any] | None = None, foreign: ForeignText = "withhold"
    ) -> Mask:
        """Make the mask of a call."""
        return Mask(lambda: self._collect(arguments, params), foreign)

    def _collect(self, arguments: object, params: Mapping[str, Any] | None) -> SecretValues:
        values = SecretValues()
        redaction = Redaction(self.schema, None, values)
        try:
            redaction.redact(arguments)
            if params is not None:
                redaction.redact(_open(dict(params), every=True))
        except Exception:  # noqa: BLE001  # a foreign mapping may raise anything, and a value may hold itself
            values.is_full = True
        return values

    def hide(self, error: InvalidParams, arguments: object) -> InvalidParams:
        """Return the refusal without the values that were sent for secrets."""
        mask = self.make_mask(arguments)
        problems = tuple(self._hide_problem(problem, mask) for problem in error.problems)
        return InvalidParams(problems, error.repairs, sent=error.sent, schema=error.schema)

    def hide_repairs(self, repairs: tuple[Repair, ...], arguments: object) -> tuple[Repair, ...]:
        """Return the repairs without the values of secrets."""
        mask = self.make_mask(arguments)
        return tuple(self._hide_repair(repair, mask) for repair in repairs)

    def _hide_problem(self, problem: Problem, mask: Mask) -> Problem:
        """Hide what a refusal says of a value. A validator's text is an exception's: where it saw a secret, it goes."""
        expected, suggestion = problem.expected, problem.suggestion
        got = problem.got if problem.got in _TYPES else ""
        if problem.rule not in ("required", "additionalProperties"):
            _, forms = read_path(self.schema, problem.path) if problem.path else ([], self.schema.root())
            if forms is None or self.schema.holds_secret(forms):
                suggestion = ""
                expected = _REFUSED if problem.rule == "validator" else expected
        if problem.rule == "validator":
            expected = PublicText(mask(expected))
        return Problem(mask(problem.path), problem.rule, expected, got, mask(suggestion))

    def _hide_repair(self, repair: Repair, mask: Mask) -> Repair:
        redaction = Redaction(self.schema)
        before, after, path = repair.before, repair.after, repair.path
        if repair.rule in ("parameter_name", NAME_KEPT):
            before, after = (mask(each) if isinstance(each, str) else each for each in (before, after))
        elif path:
            _, forms = read_path(self.schema, path)
            before, after = (redaction.redact_at(forms, each, path) for each in (before, after))
        else:
            before, after = redaction.redact(before), redaction.redact(after)
        return Repair(mask(path), repair.rule, before, after)


def _reveal(arguments: dict[str, Any]) -> object:
    try:
        return _open(arguments)
    except RecursionError:  # it is refused for its depth
        return arguments


def _open(value: Any, *, every: bool = False) -> Any:
    """Open the models that hold a secret type, or every model."""
    if isinstance(value, (str, int, float, type(None))):
        return value
    if type(value) is _DICT:  # texts are most of a large call
        return {name: each if type(each) is str else _open(each, every=every) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_open(each, every=every) for each in cast("list[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    if callable(reveal := getattr(value, "get_secret_value", None)):
        return _open(reveal(), every=every)
    opened = _read_fields(value) if every else _open_model(value)
    return {name: _open(each, every=every) for name, each in opened.items()} if opened is not None else value


def _open_model(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a model that holds a secret type, by the names that parsing reads; else None."""
    named = _read_fields(value)
    return named if named is not None and any(map(_is_secret_type, named.values())) else None


def _read_fields(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a model, by the names that parsing reads; None for any other value."""
    cls = cast("Any", type(value))
    if (known := getattr(cls, "model_fields", None)) is not None:
        return {(field.alias or name): getattr(value, name) for name, field in known.items()}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    if attrs.has(cls):
        return {field.alias or field.name: getattr(value, field.name) for field in attrs.fields(cls) if field.init}
    return None


def _is_secret_type(value: Any) -> bool:
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(_is_secret_type, cast("list[Any]", value)))
    if isinstance(value, Mapping):
        return any(map(_is_secret_type, cast("Mapping[Any, Any]", value).values()))
    return hasattr(value, "get_secret_value") or _open_model(value) is not None


def hide_defaults(schema: dict[str, Any]) -> None:
    """Remove the defaults and examples of secret parameters from a schema for the model."""
    if (secret := SecretSchema.find(schema)) is None:
        return
    redaction = Redaction(secret)
    for node in secret.nodes():
        forms = secret.expand([node])
        for keyword in ("default", "examples"):
            shown = node.get(keyword)
            if shown and secret.holds_secret(forms) and redaction.redact_at(forms, shown, "") != shown:
                del node[keyword]
