"""Write the form of valid arguments: their names and nesting, with a typed hole in place of each value.

``{"city": <string: Name of the city>, "day": <date YYYY-MM-DD>}``. Of a union, the form shows the branch that the sent
value chooses: by its tag, else by its names and their values, else by its type. Each form is filled with an example
and validated before it is shown, so a model that follows it is not refused again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from .example import NO_VALUE, ExampleMaker, imply_type, merge_schemas, vary
from .formats import name_text
from .problems import describe_options
from .schema import Form, JsonObject, is_array, is_object, json_type
from .spelling import fold

_ABSENT: Any = object()  # no value was sent at this place
_MAX_DEPTH = 12  # levels of objects and arrays
_MAX_BRANCHES = 50  # of one union that are compared with the sent value
_MAX_STEPS = 8  # unions inside of unions, and conditions
_MAX_PARTS = 2_000  # of one form: a schema may refer to itself in many ways
_MAX_REPEATS = 5  # items of one array
_MAX_OPTION = 300  # characters of a list of allowed values inside of an array
_UNIONS: Final = ("anyOf", "oneOf")
_CONDITIONS: Final = ("if", "then", "else", "dependentSchemas", "dependencies")
_Name: TypeAlias = tuple[str, str]  # of one value, and of several
_TYPES: Final[Mapping[str, _Name]] = {
    name: (name, f"{name}s") for name in ("string", "integer", "number", "boolean", "object", "array")
} | {"null": ("null", "nulls")}


class FormOptions(NamedTuple):
    """Limits on the size of a form.

    Attributes:
        optional: Whether the optional parameters that were not sent are shown too.
        longest: Characters of the description in each hole; 0: no descriptions.
    """

    optional: bool
    longest: int


def list_described(schema: Form) -> frozenset[str]:
    """Return the parameters that a hole can describe: all but objects and arrays with fields, which have holes."""
    writer = _Writer(
        ExampleMaker(schema, use_given=False), (), FormOptions(optional=False, longest=0), None, hides_constants=False
    )
    declared = schema.get("properties", {})
    return frozenset(name for name, node in declared.items() if not (is_object(node) and writer.is_structured(node)))


def write_form(schema: Form, sent: Mapping[str, Any], blamed: Sequence[str], options: FormOptions) -> str:
    """Write the form of valid arguments.

    Args:
        schema: The schema of the arguments.
        sent: The arguments as they were sent; empty if they are unknown.
        blamed: The paths of the problems; of an array, the form shows the first item that is blamed.
        options: How much the form shows.

    Returns:
        "" if no valid arguments are known, or if the form would have no hole: a copy of it would run.
    """
    import jsonschema_rs

    whole = dict(schema)
    is_valid = jsonschema_rs.validator_for(whole, offline=True).is_valid
    for use_given in (False, True):
        for hides_constants in (False, True):
            writer = _Writer(
                ExampleMaker(whole, use_given=use_given), tuple(blamed), options, is_valid, hides_constants
            )
            try:
                text, value, least = writer.write_whole(whole, sent)
            except _NoExampleError:
                break
            if not is_valid(value) or not is_valid(least):
                break
            if "<" in text:
                return text
    return ""


class _NoExampleError(Exception):
    """A part of the form has no example: then the whole has none, and writing the rest would be in vain."""


@attrs.define
class _Writer:
    """Writes one form, and an example beside it. The caller validates the example."""

    maker: ExampleMaker
    blamed: tuple[str, ...]
    options: FormOptions
    is_valid: Any
    hides_constants: bool  # whether an only allowed value is a hole too
    parts: int = 0  # written so far
    compared: int = 0  # parts of the sent value, with the branches of unions

    def write_whole(self, schema: JsonObject, sent: Mapping[str, Any]) -> tuple[str, JsonObject, JsonObject]:
        """Return the form, the example of all that is in it, and the example without what may be left out.

        Raises:
            _NoExampleError: No example of a part was found, or a limit was reached.
        """
        node = self._choose(schema, dict(sent), "")
        declared: JsonObject = _object(node.get("properties"))
        names = self._list_names(node, sent)
        texts: list[str] = []
        value: JsonObject = {}
        for name in names:
            text, value[name] = self._write_parameter(name, declared.get(name, True), sent.get(name, _ABSENT))
            texts.append(f"{_quote(name)}: {text}")
        least = dict(value)
        if self.options.optional:
            for name in [name for name in declared if name not in value and declared[name] is not False]:
                text, value[name] = self._describe(declared[name]), self._make(declared[name], 1)
                texts.append(f"{_quote(name)}: <optional {text}>")
        return f"{{{', '.join(texts)}}}", value, least

    def _write_parameter(self, name: str, node: Any, sent: Any) -> tuple[str, Any]:
        text, value = self._write(node, sent, 1, name)
        # A description has room only in a hole of its own.
        whole_hole = text.startswith("<") and text.endswith(">") and text.count("<") == 1
        return (f"<{self._describe(node)}>" if whole_hole and self.options.longest else text), value

    def _describe(self, node: Any) -> str:
        words = self._name(node)[0]
        if not self.options.longest or not is_object(node):
            return words
        description = node.get("description") or self.maker.merge(node).get("description")
        text = f"{words}: {str(description).strip().rstrip('.')}" if description else words
        text = " ".join(text.split())
        return text if len(text) <= self.options.longest else f"{text[: self.options.longest - 1]}…"

    def _list_names(self, node: JsonObject, sent: Any) -> list[str]:
        """List the required names of an object, then those that were sent and are declared, then what these require."""
        declared: JsonObject = _object(node.get("properties"))
        names = dict.fromkeys(_array(node.get("required")))
        depending = [each for each in (node.get("dependentRequired"), node.get("dependencies")) if is_object(each)]
        if isinstance(sent, Mapping):
            names |= dict.fromkeys(name for name in declared if name in sent and declared[name] is not False)
            names |= dict.fromkeys(name for each in depending for name in each if name in sent)
        for _ in range(_MAX_STEPS):
            more = [
                wanted
                for each in depending
                for name in names
                if is_array(each.get(name))
                for wanted in each[name]
                if wanted not in names
            ]
            if not more:
                break
            names |= dict.fromkeys(more)
        lacking = node.get("minProperties", 0) - len(names)
        names |= dict.fromkeys(islice((name for name in declared if name not in names), max(0, lacking)))
        return list(names)

    def _write(self, node: Any, sent: Any, depth: int, path: str) -> tuple[str, Any]:
        self.parts += 1
        if depth > _MAX_DEPTH or self.parts > _MAX_PARTS:
            raise _NoExampleError
        if not is_object(node):
            return "<value>", self._make(node, depth)
        here = self._choose(node, sent, path)
        if "const" in here or len(_array(here.get("enum"))) == 1:
            only = here["const"] if "const" in here else here["enum"][0]
            if self.hides_constants or is_object(only) or is_array(only):
                return f"<{self._name(here)[0]}>", only
            return json.dumps(only, ensure_ascii=False), only
        kind = _kind(here)
        if kind == "object" and (names := self._list_names(here, sent)):
            return self._write_object(here, names, sent, depth, path)
        if kind == "array" and (written := self._write_array(here, sent, depth, path)) is not None:
            return written
        return f"<{self._name(here if self.is_structured(node) else node)[0]}>", self._make(here, depth)

    def _make(self, node: Any, depth: int) -> Any:
        if (value := self.maker.make(node, depth)) is NO_VALUE:
            raise _NoExampleError
        return value

    def _write_object(
        self, node: JsonObject, names: Sequence[str], sent: Any, depth: int, path: str
    ) -> tuple[str, Any]:
        declared: JsonObject = _object(node.get("properties"))
        held = _object(sent)
        texts: list[str] = []
        value: JsonObject = {}
        for name in names:
            inner = declared.get(name, node.get("additionalProperties", True))
            text, value[name] = self._write(inner, held.get(name, _ABSENT), depth + 1, f"{path}.{name}")
            texts.append(f"{_quote(name)}: {text}")
        return f"{{{', '.join(texts)}}}", value

    def _write_array(self, node: JsonObject, sent: Any, depth: int, path: str) -> tuple[str, Any] | None:
        """Write the items of an array one by one if they differ or have fields; None: one hole says it all."""
        first: list[Any] = node.get("prefixItems") or (node["items"] if is_array(node.get("items")) else [])
        rest: Any = node.get("items", True) if not is_array(node.get("items")) else node.get("additionalItems", True)
        if not first and not (is_object(rest) and self.is_structured(rest)):
            return None
        least = node.get("minItems", 0)
        count = max(0 if first else 1, min(least, len(first) + _MAX_REPEATS))
        shown = [*first, *([rest] * max(0, count - len(first)))][: max(count, len(first))]
        items = _array(sent)[: len(shown)]
        if not first and is_array(sent):
            items = [self._find_blamed(sent, path)] * len(shown)
        texts: list[str] = []
        values: list[Any] = []
        for index, each in enumerate(shown):
            given = items[index] if index < len(items) else _ABSENT
            text, value = self._write(each, given, depth + 1, f"{path}[{index}]")
            texts.append(text)
            values.append(vary(value, index) if node.get("uniqueItems") else value)
        return f"[{', '.join(texts)}]", values

    def _find_blamed(self, sent: Sequence[Any], path: str) -> Any:
        """Return the first item that a problem names, else the first one."""
        for each in self.blamed:
            if each.startswith(f"{path}["):
                index = each[len(path) + 1 :].partition("]")[0]
                if index.isdecimal() and int(index) < len(sent):
                    return sent[int(index)]
        return sent[0] if sent else _ABSENT

    # --- The branch of a union that a value chooses ---

    def _choose(self, node: JsonObject, sent: Any, path: str) -> JsonObject:
        """Merge a node with its references, with the branches that the sent value chooses, and with its conditions."""
        here = self.maker.merge(node)
        for _ in range(_MAX_STEPS):
            keyword = next((each for each in _UNIONS if is_array(here.get(each)) and here[each]), None)
            if keyword is not None:
                own = {key: value for key, value in here.items() if key != keyword}
                branch = self._select(here[keyword][:_MAX_BRANCHES], own, sent, path)
                here = self.maker.merge(merge_schemas(own, branch))
            elif not here.keys().isdisjoint(_CONDITIONS):
                here = self.maker.merge(self._apply_conditions(here, sent))
            else:
                break
        return here

    def _select(self, branches: Sequence[Any], own: JsonObject, sent: Any, path: str) -> JsonObject:
        ways = [self.maker.merge(each) if is_object(each) else {} for each in branches if each is not False]
        ranks = [self._rank(merge_schemas(own, each), sent, 0, path) for each in ways]
        highest = max(ranks, default=())
        equal = [each for each, rank in zip(ways, ranks, strict=True) if rank == highest]
        if len(equal) > 1:  # several branches have the names that were sent: their values decide
            return max(equal, key=lambda each: self._compare(merge_schemas(own, each), sent, 0, path))
        return equal[0] if equal else {}

    def _rank(self, node: JsonObject, sent: Any, depth: int, path: str) -> tuple[int, ...]:
        """Compare a branch with what was sent: first the type, then the tags, then the names."""
        self.parts += 1
        if depth < _MAX_STEPS and self.parts < _MAX_PARTS and (ways := self._list_ways(node)) is not None:
            return max((self._rank(each, sent, depth + 1, path) for each in ways), default=(-1,))
        declared: JsonObject = _object(node.get("properties"))
        kinds = _kinds(node)
        sent_kind = "" if sent is _ABSENT else json_type(sent)
        fits = int(sent_kind in kinds or (sent_kind == "integer" and "number" in kinds))
        useful = int((kinds == {"null"}) is (sent is _ABSENT and _repeats(path)))
        if sent_kind == "object" and fits:
            tags = [
                (sent[name], values)
                for name, form in declared.items()
                if name in sent and (values := self._list_allowed(form))
            ]
            right = sum(_is_one_of(value, values) for value, values in tags)
            known = sum(name in declared or name in (_array(node.get("required"))) for name in sent)
            return fits, useful, right - len(tags), right, known
        if sent_kind == "array" and fits and len(sent) and is_object(items := node.get("items")):
            inner = self._rank(self.maker.merge(items), self._find_blamed(sent, path), depth + 1, f"{path}[0]")
            return fits, useful, *inner
        # A tag alone, as "sepa" for {"method": "sepa", …}, chooses its branch.
        named = sent_kind == "string" and any(_is_one_of(sent, self._list_allowed(each)) for each in declared.values())
        return fits, useful, 0, int(named), 0

    def _compare(self, node: JsonObject, sent: Any, depth: int, path: str) -> tuple[int, int]:
        """Compare the parts of a value with a branch: the places that do not fit it, negative, and the right tags."""
        self.compared += 1
        if depth > _MAX_STEPS or self.compared > _MAX_PARTS:
            return 0, 0
        if (ways := self._list_ways(node)) is not None:
            return max((self._compare(each, sent, depth + 1, path) for each in ways), default=(0, 0))
        kinds, kind = _kinds(node), "" if sent is _ABSENT else json_type(sent)
        if kind not in kinds and not (kind == "integer" and "number" in kinds):
            return -1, 0
        if allowed := self._list_allowed(node):
            return (0, 1) if _is_one_of(sent, allowed) else (-1, 0)
        parts: list[tuple[Any, Any, str]] = []
        wrong = 0
        if kind == "object":
            declared, more = _object(node.get("properties")), node.get("additionalProperties", True)
            wrong = sum(name not in sent for name in _array(node.get("required")))
            wrong += sum(name not in declared for name in sent) if more is False else 0
            parts = [(declared.get(name, more), value, f"{path}.{name}") for name, value in sent.items()]
        elif kind == "array" and sent:
            parts = [(node.get("items"), self._find_blamed(sent, path), f"{path}[0]")]
        inside = [
            self._compare(self.maker.merge(form), value, depth + 1, at) for form, value, at in parts if is_object(form)
        ]
        return sum(each for each, _ in inside) - wrong, sum(each for _, each in inside)

    def _list_ways(self, node: JsonObject) -> list[JsonObject] | None:
        """The branches of a union, each with what stands beside the union; None: it is none."""
        for keyword in _UNIONS:
            if is_array(inner := node.get(keyword)) and inner:
                own = {key: value for key, value in node.items() if key != keyword}
                return [merge_schemas(own, self.maker.merge(each)) for each in inner[:_MAX_BRANCHES] if is_object(each)]
        return None

    def _list_allowed(self, form: Any) -> list[Any]:
        node = self.maker.merge(form) if is_object(form) else {}
        return [node["const"]] if "const" in node else list(_array(node.get("enum")))

    def _apply_conditions(self, node: JsonObject, sent: Any) -> JsonObject:
        """Replace each condition of an object by what it comes to for the value that was sent."""
        here = {key: value for key, value in node.items() if key not in _CONDITIONS}
        held = _object(sent)
        if "if" in node:
            applies = self._holds(node["if"], held)
            more = node.get("then" if applies else "else")
            if applies and is_object(node["if"]):
                here = merge_schemas(here, self.maker.merge(node["if"]))
            here = merge_schemas(here, self.maker.merge(more)) if is_object(more) else here
            asked = _object(_object(node["if"]).get("properties"))
            for name in asked:  # another value would change what the condition comes to
                form = _object(here.get("properties")).get(name)
                if name in held and held[name] in self._list_allowed(form):
                    here = merge_schemas(here, {"properties": {name: {"const": held[name]}}})
        for keyword in ("dependentSchemas", "dependencies"):
            for name, more in _object(node.get(keyword)).items():
                if is_array(more):
                    here.setdefault("dependentRequired", {}).setdefault(name, more)
                elif is_object(more) and (name in held or name in (_array(here.get("required")))):
                    here = merge_schemas(here, self.maker.merge(more))
                    here["required"] = list(dict.fromkeys([*(_array(here.get("required"))), name]))
        return here

    def _holds(self, condition: Any, held: JsonObject) -> bool:
        import jsonschema_rs

        if not is_object(condition):
            return bool(condition)
        definitions = {key: self.maker.schema[key] for key in ("$defs", "definitions") if key in self.maker.schema}
        return jsonschema_rs.validator_for({**definitions, **condition}, offline=True).is_valid(held)

    # --- The words in a hole ---

    def _name(self, node: Any, depth: int = 0) -> _Name:
        """Name the type of a value, with its format: of one value, and of several."""
        if not is_object(node) or depth > _MAX_STEPS:
            return "value", "values"
        here = self.maker.merge(node)
        if here.get("enum"):
            options = describe_options(here["enum"])
            return options, options if len(options) <= _MAX_OPTION else "allowed values"
        if "const" in here:
            return describe_options([here["const"]]), describe_options([here["const"]])
        kinds = here.get("type")
        if kinds:
            return _join(
                [self._name_kind(each, here, depth) for each in ([kinds] if isinstance(kinds, str) else kinds)]
            )
        for keyword in _UNIONS:
            if is_array(here.get(keyword)) and here[keyword]:
                named = [self._name(each, depth + 1) for each in here[keyword][:_MAX_BRANCHES]]
                return _join(named)
        if here.keys() & {"properties", "required", "items", "prefixItems", "minimum", "maximum", "format", "pattern"}:
            return self._name_kind(imply_type(here), here, depth)
        return "value", "values"

    def _name_kind(self, kind: str, node: JsonObject, depth: int) -> _Name:
        if kind == "string":
            return name_text(node)[:2]
        if kind == "array" and is_object(items := node.get("items")):
            least = node.get("minItems", 0)
            number = f"at least {least} " if isinstance(least, int) and least > 1 else ""
            words = f" of {number}{self._name(items, depth + 1)[1]}"
            return f"array{words}", f"arrays{words}"
        if kind == "object" and not node.get("properties") and (more := node.get("additionalProperties")):
            words = f" of {self._name(more, depth + 1)[1]}" if is_object(more) else ""
            return f"object{words}", f"objects{words}"
        return _TYPES.get(kind, ("value", "values"))

    def is_structured(self, node: JsonObject, depth: int = 0) -> bool:
        """Whether the form of a value has parts of its own."""
        here = self.maker.merge(node)
        if depth > _MAX_STEPS:
            return False
        branches = [each for keyword in _UNIONS for each in _array(here.get(keyword)) if is_object(each)]
        if any(self.is_structured(each, depth + 1) for each in branches[:_MAX_BRANCHES]):
            return True
        if here.get("required") or here.get("prefixItems") or (here.get("properties") and here.get("minProperties")):
            return True
        items = here.get("items")
        return is_array(items) or (is_object(items) and self.is_structured(items, depth + 1))


def _object(value: Any) -> JsonObject:
    return value if is_object(value) else {}


def _array(value: Any) -> list[Any]:
    return value if is_array(value) else []


def _repeats(path: str) -> bool:
    """Detect the last name of a path in it before: an object may hold another of its type, and null ends the form."""
    *above, last = path.split(".")
    return last in above


def _quote(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _kinds(node: JsonObject) -> set[str]:
    kinds = node.get("type")
    if kinds:
        return {kinds} if isinstance(kinds, str) else set(kinds)
    values = [node["const"]] if "const" in node else _array(node.get("enum"))
    return {json_type(each) for each in values} or {imply_type(node)}


def _kind(node: JsonObject) -> str:
    """Return the type that the form shows: an object or an array if one is allowed."""
    kinds = _kinds(node)
    return next((each for each in ("object", "array") if each in kinds), "")


def _is_one_of(value: object, allowed: Sequence[Any]) -> bool:
    text = fold(value) if isinstance(value, str) else None
    return any(value == each or (text and isinstance(each, str) and fold(each) == text) for each in allowed)


def _join(names: Sequence[_Name]) -> _Name:
    if any(one.startswith("decimal number") for one, _ in names):  # a number is one too
        names = [each for each in names if each != _TYPES["number"]]
    return " or ".join(dict.fromkeys(one for one, _ in names)), " or ".join(dict.fromkeys(many for _, many in names))
