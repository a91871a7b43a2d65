"""OutputForm: the declared form of a tool's result: an object with a JSON Schema, as MCP has it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast, get_type_hints

import attrs

from ..base.foreign_values import FaultBarrier, or_default
from ..base.introspection import unwrap
from ..base.setup_error import SetupError
from ..engine.errors import Problem
from ..messages.text import replace_surrogates
from ..messages.values import to_data
from ..parameters.references import REFERENCES
from ..parameters.schema import NOUNS, json_type
from ..privacy import PublicText
from .definition import Tool

if TYPE_CHECKING:
    from ..parameters.jsonschema_errors import ProblemFinder
    from ..parameters.schema_limits import Growth

_RESULT: Final = "result"  # the key of a value that is not an object; the official SDK has the same
_TEXT: Final = ("string", "null")  # a result of these types alone is sent as text, and needs no form
_NOT_OF_EACH: Final = ("date-time", "time", "duration")
_DATA: Final = ("const", "enum", "default", "examples")  # keywords with values of the tool in place of schemas
_BY_NAME: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_ANY_LIST: Final[Mapping[str, Any]] = {"type": "array", "items": {}}


@attrs.frozen
class OutputForm:
    """The form of the structured content of one tool."""

    schema: Mapping[str, Any] = attrs.field(repr=False)
    is_wrapped: bool  # the value stands under `result`, because it is not an object
    _is_valid: Callable[[Any], bool] = attrs.field(repr=False)
    _find: Callable[[dict[str, Any]], tuple[Problem, ...]] = attrs.field(repr=False)
    _dump: Callable[[Any], Any] | None = attrs.field(default=None, repr=False)
    _growth: Growth | None = attrs.field(default=None, repr=False)

    def structure(self, value: object, data: Any, text: str) -> dict[str, Any] | None:
        """The value as structured content, or None: it does not fit the schema, so clients would refuse it."""
        structured = self._fit(data, text)
        if structured is None and self._dump is not None:
            structured = self._fit_dumped(value, self._dump)
        return structured

    def find_problems(self, value: object) -> tuple[Problem, ...]:
        """List what is wrong with what a tool returned; empty if it fits, or if a check would take too long.

        Text is read as JSON where it would fit so: a tool may write its object itself. Paths begin with ``result``.
        """
        data, text = to_data(value)
        if self._growth is not None and self._growth.is_too_slow(data):
            return ()
        if self.structure(value, data, text) is not None:
            return ()
        if isinstance(value, str) and self._dump is None and (read := _read_json(value)) is not None:
            if self.structure(read, *to_data(read)) is not None:
                return ()
            data = read
        else:
            data = json.loads(replace_surrogates(text))  # halves of surrogate pairs cannot be read
        structured: Any = {_RESULT: data} if self.is_wrapped else data
        if not isinstance(structured, dict):
            return (Problem("", "type", PublicText("an object"), NOUNS.get(json_type(data), "")),)
        return self._find(cast("dict[str, Any]", structured)) or (
            Problem("", "type", PublicText("of the declared form")),
        )

    @or_default(None)  # pydantic raises what the methods of a foreign value raise
    def _fit_dumped(self, value: object, dump: Callable[[Any], Any]) -> dict[str, Any] | None:
        return self._fit(*to_data(dump(value)))

    def _fit(self, data: Any, text: str) -> dict[str, Any] | None:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:  # half of a surrogate pair, which no JSON in UTF-8 can hold
                data = json.loads(replace_surrogates(text))
        structured: Any = {_RESULT: data} if self.is_wrapped else data
        return structured if self._is_valid(structured) else None


def find_form(tool: Tool[..., Any]) -> OutputForm | None:
    """The form of what a tool returns: by its ``output_schema``, else by the annotation of its function.

    None: nothing is declared, or what is declared has no JSON Schema, or is text, which needs no form.
    """
    if tool.output_schema is not None:
        return make_form(tool.output_schema, tool.name)
    hint = _read_hint(tool.fn)
    if hint is None:
        return None
    from pydantic import TypeAdapter

    made: tuple[TypeAdapter[Any], dict[str, Any]] | None = None
    with FaultBarrier():  # pydantic raises errors of many types, and so do the types of others
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        made = adapter, adapter.json_schema(mode="serialization")
    if made is None:
        return None
    adapter, schema = made
    if _says_nothing(schema) or '"format": "binary"' in json.dumps(schema):  # bytes are images and the like
        return None

    def dump(value: Any) -> Any:
        return adapter.dump_python(value, mode="json", by_alias=True, warnings=False)

    with suppress(SetupError):
        return make_form(_leave_out_formats(schema), tool.name, dump)
    return None


@or_default(None)  # an annotation is any code
def _read_hint(function: Callable[..., Any]) -> Any:
    """The type that a function is declared to return; None: it declares none, or none that says anything."""
    hint = get_type_hints(unwrap(function), include_extras=True).get("return", inspect.Signature.empty)
    return None if hint in (inspect.Signature.empty, Any, object, str, bytes, type(None)) else hint


def _leave_out_formats(schema: Any) -> Any:
    """A schema of pydantic without the formats that not each value of the type has: a naive time has no offset."""
    if isinstance(schema, dict):
        members = cast("dict[str, Any]", schema).items()
        kept = ((key, each) for key, each in members if key != "format" or each not in _NOT_OF_EACH)
        return {key: _leave_out_formats(each) for key, each in kept}
    return [_leave_out_formats(each) for each in cast("list[Any]", schema)] if isinstance(schema, list) else schema


def _says_nothing(schema: Mapping[str, Any]) -> bool:
    """Whether a schema admits nothing but plain text and null, or any value, or any list."""
    branches: Any = schema.get("anyOf", [schema])
    return schema == _ANY_LIST or all(
        set(each) <= {"type", "title"} and each.get("type", "null") in _TEXT for each in branches
    )


def make_form(schema: Mapping[str, Any], name: str, dump: Callable[[Any], Any] | None = None) -> OutputForm:
    """Compile the schema of a result.

    Args:
        schema: The schema.
        name: The name of the tool, for the error.
        dump: See `OutputForm`.

    Raises:
        SetupError: It is no JSON Schema, or above the limits of one.
    """
    import jsonschema_rs

    from ..parameters.jsonschema_errors import PATTERNS, ProblemFinder
    from ..parameters.schema_limits import check_schema, find_growth

    check_schema(schema, name)
    whole = dict(schema)
    is_wrapped = not _is_object(whole)
    if is_wrapped:
        hoisted = ("$schema",) if "$id" in whole else ("$schema", "$defs")
        shared: dict[str, Any] = _lead_below({key: whole.pop(key) for key in hoisted if key in whole})
        properties = {_RESULT: _lead_below(whole)}
        whole = {**shared, "type": "object", "properties": properties, "required": [_RESULT]}
    else:
        whole["type"] = "object"
    try:
        validator = jsonschema_rs.validator_for(whole, offline=True, pattern_options=PATTERNS, validate_formats=True)
        is_valid = validator.is_valid  # clients look at formats too
        readings, growth = find_growth(whole, tagged=False)
        finder = ProblemFinder(validator, whole, whole, readings)
    except SetupError as exc:
        raise SetupError(f"{name}: its output_schema: {exc}") from exc
    except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as exc:
        raise SetupError(f"{name}: its output_schema is no JSON Schema: {exc}") from exc

    def fits(value: Any) -> bool:
        try:
            return is_valid(value)
        except ValueError:  # a number that the validator cannot read
            return False

    def find(value: dict[str, Any]) -> tuple[Problem, ...]:
        found = _list_problems(finder, value)
        if is_wrapped:
            return found
        return tuple(attrs.evolve(each, path=f"{_RESULT}.{each.path}" if each.path else "") for each in found)

    return OutputForm(whole, is_wrapped, fits, find, dump, growth)


def _lead_below(schema: Any, *, are_names: bool = False) -> Any:
    """A schema, or schemas by name, whose references lead to what stood at the root and stands under ``result`` now."""
    if isinstance(schema, list):
        return [_lead_below(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict) or (not are_names and "$id" in schema):  # pointers begin at what has an id
        return cast("Any", schema)
    moved: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if not are_names and key in REFERENCES and isinstance(value, str):
            to_root = value == "#" or (value.startswith("#/") and not value.startswith("#/$defs/"))
            # Without a mark for it, which a root with an id alone may have, a recursive reference is a plain one.
            moved["$ref" if to_root else key] = f"#/properties/{_RESULT}{value[1:]}" if to_root else value
        else:
            is_data = not are_names and key in _DATA
            moved[key] = value if is_data else _lead_below(value, are_names=not are_names and key in _BY_NAME)
    return moved


@or_default(None)  # also a text that is nested too deeply
def _read_json(text: str) -> Any:
    return json.loads(text)


@or_default(())  # a value that the validator cannot read
def _list_problems(finder: ProblemFinder, value: dict[str, Any]) -> tuple[Problem, ...]:
    return finder.find(value)


def _is_object(schema: Mapping[str, Any]) -> bool:
    """Whether a schema admits objects alone."""
    reference: Any = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        shared = cast("Mapping[str, Any]", schema.get("$defs", {}))
        target: Any = shared.get(reference.removeprefix("#/$defs/"))
        return isinstance(target, Mapping) and cast("Mapping[str, Any]", target).get("type") == "object"
    return schema.get("type") == "object"
