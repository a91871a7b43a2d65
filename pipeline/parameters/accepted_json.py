"""The arguments that a tool gets, as the JSON that its schema speaks of: by its names, with exact numbers.

Rules, approvals, audits and plans read this form. It is made of the params and not of what was sent, so that it shows
the call as it would run. What a serializer would leave out or write otherwise stands in it as well: pydantic's core
schema says which name each field has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from decimal import Decimal
from enum import Enum
from numbers import Number
from typing import Any, Final, TypeAlias, cast
from weakref import WeakKeyDictionary

import attrs

from ..base.foreign_values import or_default
from .annotations import BuildAttrs, adapt_annotation
from .json_scalars import NO_SCALAR, write_scalar
from .schema_generator import is_secret
from .tool_parameters import CannotSay

# By the ids of a union and of a value, the value, which keeps its id, and what was written for it in this call.
_Seen: TypeAlias = dict[tuple[int, int], tuple[Any, Any]]
_Writer: TypeAlias = Callable[[Any, _Seen], Any]
_Node: TypeAlias = dict[str, Any]  # of a core schema

_ANY: _Node = {"type": "any"}
_NOTHING: Any = object()
_LIST: Any = list  # under these names type checkers do not narrow to types of unknown items
_TUPLE: Any = tuple
_ARRAYS: Any = (list, tuple, deque, AbstractSet)
_DATA: Final = (str, bytes, bytearray, memoryview, Number, Mapping, *_ARRAYS)
_TEXT: Final = frozenset((str,))
_NUMBERS: Final = frozenset((int, float, Decimal))
# The types of JSON that a value of a node has, by the type of the node.
_LEAVES: Final[Mapping[str, frozenset[Any]]] = {
    **dict.fromkeys(("str", "date", "datetime", "time", "timedelta", "url", "multi-host-url", "uuid"), _TEXT),
    **dict.fromkeys(("float", "decimal"), _NUMBERS),
    "int": frozenset((int,)),
    "bool": frozenset((bool,)),
    "none": frozenset((type(None),)),
    "literal": frozenset((str, int, float, bool, type(None), Decimal)),
    "json": frozenset(),  # a text that was decoded: it is not known how it was written
}
_LISTS: Final = ("list", "set", "frozenset", "deque", "generator")
_DICTS: Final = ("dict", "ordered-dict", "frozendict", "counter")
_CLASSES: WeakKeyDictionary[type[Any], _Writer] = WeakKeyDictionary()


@attrs.frozen
class _Field:
    """One field of an object: its name in the schema, and how its value is written.

    Attributes:
        name: The name in the schema.
        write: Writes a value of its type.
        default: The default. `_NOTHING`: none.
        is_made: Whether only a default that is made anew can have another form than the type.
    """

    name: str
    write: _Writer
    default: Any = _NOTHING
    is_made: bool = False

    def add(self, value: Any, seen: _Seen, found: dict[str, Any], default: Any = _NOTHING) -> None:
        """Write the value under its name. A default may be of another type, or a sentinel, which is left out.

        Args:
            value: The value.
            seen: See `_Seen`.
            found: The object that gets it.
            default: The default, if it is not that of the type.
        """
        try:
            plain = self.write(value, seen)
        except CannotSay:
            known = self.default if default is _NOTHING else default
            if not self.is_made and (known is _NOTHING or not _is_same(value, known)):
                raise
            if (plain := _write_default(value, seen)) is _NOTHING:
                return
        if self.name in found:
            raise CannotSay("two fields with one name")
        found[self.name] = plain


@attrs.frozen
class AcceptedJson:
    """Writes the params of one tool.

    Args:
        fields: The parameters by their Python names. The others keep their names.
        write_other: Writes the value of another name. Default: a value of any type.
    """

    fields: Mapping[str, _Field]
    write_other: _Writer = attrs.field(default=attrs.Factory(lambda: _write_any))

    @classmethod
    def of(cls, core: _Node) -> AcceptedJson:
        """Of the core schema of a function's parameters."""
        compiler = _Compiler(reveals=True)
        while core["type"] == "definitions":
            core = compiler.define(core)
        return cls(compiler.read_fields(core), compiler.compile(core.get("extras_schema", _ANY)))

    def write(self, params: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """The params and the defaults of those that were left out, by the names of the schema, as JSON values.

        Numbers are exact: a Decimal stays one unless an integer or a float is equal to it. Sets are arrays.

        Raises:
            CannotSay: A value has no JSON form (bytes, a Fraction, NaN, a class that the schema does not know), or a
                validator made another form of it than the schema says.
        """
        found: dict[str, Any] = {}
        seen: _Seen = {}
        try:
            for name, value in {**defaults, **params}.items():
                field = self.fields.get(name) or _Field(name, self.write_other)
                field.add(value, seen, found, defaults.get(name, _NOTHING))
        except CannotSay:
            raise
        except Exception as exc:  # a foreign object may raise anything, and a deep one RecursionError
            raise CannotSay(type(exc).__name__) from exc
        return found


@attrs.define
class _Compiler:
    """Makes writers of core schemas.

    Args:
        reveals: Whether secrets are written: the schema declares them, so whoever shows the JSON masks them.
    """

    reveals: bool
    _definitions: dict[str, _Node] = attrs.field(factory=dict[str, Any])
    _made: dict[str | int, _Writer] = attrs.field(factory=dict[str | int, Any])

    def define(self, node: _Node) -> _Node:
        self._definitions.update((each["ref"], each) for each in node["definitions"])
        return cast("_Node", node["schema"])

    def compile(self, node: _Node) -> _Writer:  # noqa: C901, PLR0912  # one case for each type of node
        kind = node["type"]
        if "ref" in node:
            self._definitions.setdefault(node["ref"], node)
        if (kinds := _LEAVES.get(kind)) is not None:
            return _leaf(kinds)
        if kind == "definitions":
            return self.compile(self.define(node))
        if kind == "definition-ref":
            ref = node["schema_ref"]
            return self._later(ref, lambda: self.compile(self._definitions[ref]))
        if kind == "nullable":
            return self._union([{"type": "none"}, node["schema"]])
        if kind in ("union", "tagged-union"):
            choices: Any = node["choices"]
            every: Any = list(choices.values() if kind == "tagged-union" else choices)
            return self._union([each[0] if type(each) is _TUPLE else each for each in every])
        if kind in _LISTS:
            return _array([self.compile(node.get("items_schema", _ANY))], 0)
        if kind == "tuple":
            items = [self.compile(each) for each in node["items_schema"]]
            return _array(items, node.get("variadic_item_index"))
        if kind == "named-tuple":
            return _named_tuple(node["cls"], list(self.read_fields(node).values()))
        if kind in _DICTS:
            return self._dict(node)
        if kind == "typed-dict":
            return self._typed_dict(node)
        if kind in ("model", "dataclass"):
            return self._model(node) if kind == "model" else self._dataclass(node)
        if kind == "function-after" and isinstance(builder := node["function"]["function"], BuildAttrs):
            cls, shape = builder.cls, node["schema"]  # only the shape has a name, by which it refers to itself
            return self._later(id(cls), lambda: self._attrs(cls, shape))
        if kind == "enum":
            return _member(node["cls"])
        if kind == "chain":
            return self.compile(node["steps"][-1])
        if kind == "lax-or-strict":
            return self.compile(node["strict_schema"])
        if kind == "json-or-python":
            inner = self.compile(node["json_schema"])
            if is_secret(node):
                return _reveal(inner) if self.reveals else _refuse("a secret where the schema declares none")
            return inner
        held = node.get("schema", node.get("json_schema_input_schema"))
        return _write_any if held is None else self.compile(cast("_Node", held))

    def read_fields(self, node: _Node, *, by_alias: bool = True) -> dict[str, _Field]:
        """The fields of a node, by their Python names."""
        given: Any = node["fields"]
        named: Any = ((each["name"], each) for each in given) if type(given) is _LIST else given.items()
        return {name: self._field(name, each, by_alias=by_alias) for name, each in named}

    def _field(self, name: str, field: _Node, *, by_alias: bool) -> _Field:
        held = field["schema"]
        is_made = held["type"] == "default" and "default_factory" in held and not _may_change(held)
        default = held.get("default", _NOTHING) if held["type"] == "default" else _NOTHING
        return _Field(_read_name(name, field) if by_alias else name, self.compile(held), default, is_made)

    def _later(self, key: str | int, make: Callable[[], _Writer]) -> _Writer:
        """A writer that is made at its first use, once for each key."""

        def write(value: Any, seen: _Seen) -> Any:
            made = self._made.get(key)
            if made is None:
                made = self._made[key] = make()
            return made(value, seen)

        return write

    def _union(self, choices: list[_Node]) -> _Writer:
        writers = [self.compile(each) for each in choices]

        def write(value: Any, seen: _Seen) -> Any:
            """What the choices that fit write. If these write two things, it cannot be said which one was meant."""
            place = (id(writers), id(value))
            if place not in seen:  # else each level of a value would be read once for each way to it
                seen[place] = value, _write_choice(writers, value, seen)
            if (plain := seen[place][1]) is _NOTHING:
                raise CannotSay("a value of no type of a union, or of several")
            return plain

        return write

    def _dict(self, node: _Node) -> _Writer:
        write_key = self.compile(node.get("keys_schema", _ANY))
        write_value = self.compile(node.get("values_schema", _ANY))

        def write(value: Any, seen: _Seen) -> Any:
            if not isinstance(value, Mapping):
                raise CannotSay("no object")
            return _write_items(cast("Mapping[Any, Any]", value).items(), write_key, write_value, seen)

        return write

    def _typed_dict(self, node: _Node) -> _Writer:
        fields, allows = self.read_fields(node, by_alias=_is_by_alias(node)), _allows_more(node)
        needed = [name for name, each in node["fields"].items() if each.get("required", node.get("total", True))]
        write_extra = self.compile(node.get("extras_schema", _ANY))

        def write(value: Any, seen: _Seen) -> Any:
            if not isinstance(value, dict) or not all(name in value for name in needed):
                raise CannotSay("no object of a TypedDict")
            found: dict[str, Any] = {}
            for name, each in cast("dict[str, Any]", value).items():
                if (field := fields.get(name)) is None and not allows:
                    raise CannotSay("a name that a TypedDict does not have")
                (field or _Field(str(name), write_extra)).add(each, seen, found)
            return found

        return write

    def _model(self, node: _Node) -> _Writer:
        cls, inner = node["cls"], _strip(node["schema"])
        if node.get("root_model"):
            write_root = self.compile(node["schema"])
            return lambda value, seen: write_root(_check_class(value, cls).root, seen)
        fields = self.read_fields(inner, by_alias=_is_by_alias(node))
        write_extra = self.compile(inner.get("extras_schema", _ANY))

        def write(value: Any, seen: _Seen) -> Any:
            given: Any = _check_class(value, cls).__pydantic_fields_set__
            held: Any = value.__dict__
            found: dict[str, Any] = {}
            for name, field in fields.items():
                if name not in held:
                    raise CannotSay(f"a model without {name}")
                field.add(held[name], seen, found, _NOTHING if name in given else held[name])
            extra: dict[str, Any] = value.__pydantic_extra__ or {}
            for name, each in extra.items():
                _Field(name, write_extra).add(each, seen, found)
            return found

        return write

    def _dataclass(self, node: _Node) -> _Writer:
        args = _strip(node["schema"])
        own = [each for each in args["fields"] if each.get("init", True)]
        if any(each.get("init_only") for each in own):
            return _refuse("a value for `__post_init__` alone")
        fields = self.read_fields({"fields": own}, by_alias=_is_by_alias(node))
        known = {each["name"] for each in args["fields"]}
        return _object(node["cls"], fields, known if _allows_more(args) or _allows_more(node) else None)

    def _attrs(self, cls: type[Any], inner: _Node) -> _Writer:
        shape = inner if inner["type"] == "typed-dict" else self._definitions[inner["schema_ref"]]
        shown = self.read_fields(shape)
        fields: dict[str, _Field] = {}
        for each in attrs.fields(cls):
            if each.init:
                default: Any = each.default
                held = shown[each.alias or each.name]
                is_made = type(default) is attrs.Factory and each.converter is None
                fields[each.name] = attrs.evolve(
                    held, default=_NOTHING if default is attrs.NOTHING else default, is_made=is_made
                )
        return _object(cls, fields, None)


def _read_name(name: str, field: _Node) -> str:
    """The name of a field in the schema, as pydantic's generator finds it: its alias, else the first plain choice."""
    alias: Any = field.get("validation_alias", name)
    ways: list[Any] = alias if type(alias) is _LIST else [[alias]]
    return next((str(each[0]) for each in ways if type(each) is _LIST and len(each) == 1), name)


def _is_by_alias(node: _Node) -> bool:
    return bool(node.get("config", {}).get("validate_by_alias", True))


def _allows_more(node: _Node) -> bool:
    behaviour = node.get("extra_behavior") or node.get("config", {}).get("extra_fields_behavior")
    return behaviour == "allow" or "extras_schema" in node


def _may_change(node: Any) -> bool:
    """Whether a function of an author may give a value of this node another form."""
    while isinstance(node, dict):
        found = cast("_Node", node)
        if found["type"].startswith("function"):
            return True
        node = found.get("schema")
    return False


def _strip(node: _Node) -> _Node:
    """The node inside of validators of the whole object."""
    while node["type"].startswith("function"):
        node = node["schema"]
    return node


def _check_class(value: Any, cls: type[Any]) -> Any:
    if type(value) is not cls:  # a subclass may have fields that the schema does not know
        raise CannotSay(f"no {cls.__name__}")
    return value


@or_default(default=False)  # of a foreign class
def _is_same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _refuse(reason: str) -> _Writer:
    def write(_value: Any, _seen: _Seen) -> Any:
        raise CannotSay(reason)

    return write


def _member(cls: type[Enum]) -> _Writer:
    def write(value: Any, seen: _Seen) -> Any:
        if not isinstance(value, cls):
            raise CannotSay(f"no {cls.__name__}")
        return _write_any(value, seen)

    return write


def _leaf(kinds: frozenset[type[Any]]) -> _Writer:
    def write(value: Any, seen: _Seen) -> Any:
        plain = _write_any(value, seen)
        if type(plain) not in kinds:
            raise CannotSay("a value of another type than the schema says")
        return plain

    return write


def _reveal(inner: _Writer) -> _Writer:
    """The hidden value of pydantic's secret types."""
    return lambda value, seen: inner(value.get_secret_value() if hasattr(value, "get_secret_value") else value, seen)


def _object(cls: type[Any], fields: Mapping[str, _Field], known: Iterable[str] | None) -> _Writer:
    """Write the fields of an instance, and where names are known, also its attributes of other names."""

    def write(value: Any, seen: _Seen) -> Any:
        _check_class(value, cls)
        found: dict[str, Any] = {}
        for name, field in fields.items():
            if (each := getattr(value, name, _NOTHING)) is _NOTHING:
                raise CannotSay(f"an object without {name}")
            field.add(each, seen, found)
        more = cast("dict[str, Any]", {} if known is None else vars(value))
        for name, each in more.items():
            if name not in fields and name not in (known or ()):
                _Field(name, _write_any).add(each, seen, found)
        return found

    return write


def _array(items: list[_Writer], variadic: int | None) -> _Writer:
    """Write an array. The writer of the variadic number, if there is one, stands for any number of items."""

    def write(value: Any, seen: _Seen) -> Any:
        if not isinstance(value, _ARRAYS):
            raise CannotSay("no array")
        given: list[Any] = list(value)
        writers = items
        if variadic is not None:
            more = len(given) - len(items) + 1
            writers = [*items[:variadic], *[items[variadic]] * more, *items[variadic + 1 :]]
        if len(writers) != len(given):
            raise CannotSay("an array of another length")
        return [write_item(each, seen) for write_item, each in zip(writers, given, strict=True)]

    return write


def _named_tuple(cls: type[Any], fields: list[_Field]) -> _Writer:
    """Write an array, as the schema has it, of an instance of a named tuple."""

    def write(value: Any, seen: _Seen) -> Any:
        found: dict[str, Any] = {}
        for field, each in zip(fields, _check_class(value, cls), strict=True):
            field.add(each, seen, found)
        return [found.get(field.name) for field in fields]

    return write


def _write_choice(writers: list[_Writer], value: Any, seen: _Seen) -> Any:
    found: Any = _NOTHING
    for write in writers:
        try:
            plain = write(value, seen)
        except CannotSay:
            continue
        if found is not _NOTHING and found != plain:
            return _NOTHING
        found = plain
    return found


def _write_items(
    items: Iterable[tuple[Any, Any]], write_key: _Writer, write_value: _Writer, seen: _Seen
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, each in items:
        name = write_key(key, seen)
        if type(name) is bool or not isinstance(name, (str, int)):
            raise CannotSay("a key that JSON does not have")
        if (name := str(name)) in found:
            raise CannotSay("two keys with one text")
        found[name] = write_value(each, seen)
    return found


def _write_default(value: Any, seen: _Seen) -> Any:
    """A default that its own type would refuse, as it is; `_NOTHING` for a sentinel, which the schema shows neither."""
    try:
        return _write_any(value, seen)
    except CannotSay:
        if isinstance(value, _DATA) or _has_fields(cast("type[Any]", type(value))):
            raise
        return _NOTHING


def _write_any(value: Any, seen: _Seen) -> Any:
    """A value of which the schema says nothing."""
    if isinstance(value, Enum):
        return _write_any(value.value, seen)
    if (plain := write_scalar(value)) is not NO_SCALAR:
        return plain
    if isinstance(value, Mapping):
        return _write_items(cast("Mapping[Any, Any]", value).items(), _write_any, _write_any, seen)
    if isinstance(value, _ARRAYS):
        return [_write_any(each, seen) for each in cast("list[Any]", value)]
    return _write_class(cast("type[Any]", type(value)))(value, seen)


def _write_class(kind: type[Any]) -> _Writer:
    """The writer of a class that the schema does not know, such as that of a default, or of a value of type Any."""
    if (write := _CLASSES.get(kind)) is None:
        if not _has_fields(kind):
            raise CannotSay(f"a value of {kind.__name__}")
        from pydantic import TypeAdapter

        try:
            core: Any = TypeAdapter(adapt_annotation(kind, {})).core_schema
            write = _CLASSES[kind] = _Compiler(reveals=False).compile(core)
        except Exception as exc:  # a class that is no parameter's may have any annotations
            raise CannotSay(f"a value of {kind.__name__}") from exc
    return write


def _has_fields(kind: type[Any]) -> bool:
    return attrs.has(kind) or is_dataclass(kind) or hasattr(kind, "__pydantic_fields__")
