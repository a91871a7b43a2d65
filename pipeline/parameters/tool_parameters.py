"""Parameters: the schema of one tool's parameters, and the methods that parse and repair its arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import attrs

from ..engine.errors import InvalidParams, MalformedCall, Repair
from ..privacy.secret_places import SecretSchema
from .coercions import Rule, coerce
from .expectations import UNWRITTEN, Expected
from .limits import SCALARS, Limits
from .reading import read_arguments
from .renames import list_kept
from .repair import repair_arguments
from .schema import Parts, forms_at, is_required, names_at
from .schema_limits import list_texts
from .spelling import ADVISED, find_markup, may_be_markup, with_suggestions

if TYPE_CHECKING:
    from ..privacy.secret_guard import SecretGuard
    from .accepted_json import AcceptedJson

# The policy for arguments that the schema does not declare: refuse them, leave them out and record a repair, or pass
# them on.
Undeclared: TypeAlias = Literal["reject", "drop", "pass"]
# Arguments -> params, or a refusal. Never raises for arguments that a model sent; an exception other than ValueError
# from an author's own validator passes.
Parse: TypeAlias = Callable[[object], "dict[str, Any] | InvalidParams | MalformedCall"]

_DICT: Any = dict  # under this name type checkers do not narrow to `dict[Unknown, Unknown]`
_MAX_EXPECTED = 1_000  # places inside of parameters that are kept
_MAX_NAME = 100  # characters of the name of one
_OPENING = ("{", "[")  # the beginning of text that may hold an object or an array
_CONTAINERS = frozenset((dict, list, tuple, set))
_FEW = 16  # items that are copied as fast one by one
_DICTS: frozenset[type[Any]] = frozenset((dict,))
_values: Callable[[dict[str, Any]], Iterable[Any]] = _DICT.values
_copy_dict: Callable[[Any], Any] = _DICT.copy


class CannotSay(Exception):  # noqa: N818 -- an answer of a rule, beside yes and no; no error reaches a caller
    """The arguments have no JSON form that says all of what the tool would get."""


class Given(dict[str, Any]):
    """Arguments from a program, by `Pipeline.run`: each value may be an instance of the parameter's type.

    A value of JSON's types counts as an instance first: a text for ``date | str`` stays a text.
    """


class Compiled(NamedTuple):
    """A compiled signature or schema.

    Attributes:
        parse: Parses arguments.
        schema: The JSON Schema that the model sees.
        flat: Whether valid arguments are at most 32 scalars, so that their number and depth need no check.
        ambiguous: Whether a value may be validated exponentially often, so that deep arguments are refused.
        is_open: See `Parameters.is_open`.
        make_core: Makes pydantic's core schema of a function's parameters; None: they are those of a raw schema.
    """

    parse: Parse
    schema: Mapping[str, Any]
    flat: bool = False
    ambiguous: bool = False
    is_open: bool = False
    make_core: Callable[[], Any] | None = None


@attrs.define(eq=False)
class Parameters:
    """The parameters of one tool: their schema, and how its arguments are parsed, repaired and refused.

    They are compiled at first use, since pydantic alone takes 100 ms to import. The first use of `schema`, `example` or
    `parse` may raise SetupError: a type has no JSON Schema, or an annotation cannot be found.

    Attributes:
        undeclared: The policy for undeclared arguments; None: as the schema says.
        parse: Parses arguments; see `Parse`.
        names: The declared names; empty until compiled.
        flat: As `Compiled.flat`; False until compiled.
        secrets: Hides the secret parameters; None: there are none.
        texts: If `flat`, the names of the parameters that may be text.
        is_textless: Whether it is flat, and no parameter may be text.
        is_open: Whether the schema permits names at its top level that it says nothing about; False until compiled.
    """

    _build: Callable[[], Compiled] = attrs.field(repr=False)
    undeclared: Undeclared | None = None
    parse: Parse = attrs.field(init=False, repr=False)
    names: frozenset[str] = attrs.field(init=False, repr=False, default=frozenset())
    flat: bool = attrs.field(init=False, repr=False, default=False)
    secrets: SecretGuard | None = attrs.field(init=False, repr=False, default=None)
    texts: tuple[str, ...] = attrs.field(init=False, repr=False, default=())
    is_textless: bool = attrs.field(init=False, repr=False, default=False)
    is_open: bool = attrs.field(init=False, repr=False, default=False)
    _compiled: Compiled | None = attrs.field(init=False, repr=False, default=None)
    _accepted: AcceptedJson | None = attrs.field(init=False, repr=False, default=None)
    _expected: dict[int | str, Expected] = attrs.field(init=False, repr=False, factory=dict[Any, Any])
    _expected_inside: dict[tuple[Any, ...], Expected] = attrs.field(init=False, repr=False, factory=dict[Any, Any])

    def __attrs_post_init__(self) -> None:
        self.parse = self._compile_and_parse

    @classmethod
    def of_function(
        cls, function: Callable[..., Any], *, skip_first: bool = False, undeclared: Undeclared | None = None
    ) -> Parameters:
        """Read the parameters of a function from its signature and its docstring.

        Args:
            function: Any callable.
            skip_first: Whether the library fills the first parameter, as it does with a ToolContext.
            undeclared: The policy for undeclared arguments; None: refuse them, unless the function takes ``**kwargs``.
        """

        def build() -> Compiled:
            from .parsing import compile_function

            return compile_function(function, skip_first=skip_first)

        return cls(build, undeclared)

    @classmethod
    def of_schema(
        cls,
        schema: Mapping[str, Any],
        name: str,
        *,
        undeclared: Undeclared | None = None,
        accepted: Mapping[str, Any] | None = None,
    ) -> Parameters:
        """Read parameters from a JSON Schema. Nothing is fetched for a ``$ref``, from the network or from a file.

        Args:
            schema: The schema; it must not change afterwards.
            name: The tool's name, for a SetupError.
            undeclared: The policy for undeclared arguments; None: as the schema says.
            accepted: A wider schema to validate arguments by, if ``schema`` is only for the model to see; None:
                ``schema`` itself.
        """

        def build() -> Compiled:
            from .parsing import compile_schema

            return compile_schema(schema, name, undeclared, accepted)

        return cls(build, undeclared)

    @property
    def is_compiled(self) -> bool:
        """Whether they have been compiled."""
        return self._compiled is not None

    def compile(self) -> Compiled:
        """Compile them unless that is done already. Raises SetupError if it fails."""
        if self._compiled is None:
            self._compiled = self._guard_secrets(self._build())
            self.parse, self.flat = self._compiled.parse, self._compiled.flat
            self.texts = list_texts(self._compiled.schema) if self.flat else ()
            self.is_textless = self.flat and not self.texts
            self.names = frozenset(names_at(self._compiled.schema, ()))
            self.is_open = self._compiled.is_open
        return self._compiled

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema. Compiles them."""
        return (self._compiled or self.compile()).schema

    @property
    def is_ambiguous(self) -> bool:
        """Whether they have a recursive union without a discriminator. Compiles them."""
        return (self._compiled or self.compile()).ambiguous

    def keeps_limits(self, arguments: Any, limits: Limits) -> bool:
        """Whether the arguments certainly keep the limits if they are valid; wrong ones may be of any size.

        Valid arguments of a flat tool are a few scalars, of which only a long text can break a limit.
        """
        if not self.flat or limits.flat_value < 0:
            return False
        if type(arguments) is not _DICT:
            return type(arguments) is str and len(arguments) <= limits.flat_text
        for name in self.texts:
            value = arguments.get(name)
            if type(value) is str and len(value) > limits.flat_value:
                return False
        return True

    def is_settled(self, arguments: Any, error: InvalidParams, rules: frozenset[Rule], longest: int) -> bool:
        """Whether a refusal is final at first sight: nothing undeclared was sent, and no rule reads a wrong value.

        Most refusals are of this kind: parameters are missing, or scalars are wrong. `repair` and `advise` find the
        same, but then half of the time of a refusal goes into looking.

        Args:
            arguments: The arguments as they were sent.
            error: The refusal from `parse`.
            rules: The rules that may be used.
            longest: Characters: a wrong text that is longer is not read, and the result is False. Negative: always
                False.
        """
        sent: Any = arguments if type(arguments) is _DICT else error.read
        if longest < 0 or type(sent) is not _DICT or not self.names.issuperset(sent):
            return False
        missing = 0
        for problem in error.problems:
            rule, path = problem.rule, problem.path
            if rule == "required" and path in self.names:
                missing += 1
                continue
            if rule in ADVISED or problem.got == "null" or path not in sent:  # a path inside of a parameter
                return False
            value = sent[path]
            if type(value) is str:
                if (
                    len(value) > longest or may_be_markup(value) or value.lstrip()[:1] in _OPENING
                ):  # only `repair` reads it
                    return False
            # The meaning of a float from text may be in how it was spelt.
            elif type(value) not in SCALARS or (type(value) is float and sent is not arguments):
                return False
            if coerce(value, self._expected.get(path) or self.expected_at([path]), rules, UNWRITTEN) is not None:
                return False
        return missing in (0, len(error.problems)) and (self.is_textless or not self._may_hold_markup(sent))

    def _may_hold_markup(self, sent: dict[str, Any]) -> bool:
        """Whether `advise` has to look for the markup of a call in a text that may be right."""
        for name in self.texts if self.flat else sent:
            value = sent.get(name)
            if may_be_markup(value) if type(value) is str else type(value) in _CONTAINERS:
                return True
        return False

    def repair(
        self,
        arguments: object,
        error: InvalidParams | MalformedCall,
        rules: frozenset[Rule],
        limits: Limits | None = None,
        tool_names: Collection[str] = (),
    ) -> tuple[dict[str, Any], tuple[Repair, ...]] | InvalidParams | None:
        """Repair arguments that `parse` refused, if they contain the values that the model meant.

        Args:
            arguments: The arguments as they were sent. They are not changed.
            error: The refusal from `parse`.
            rules: The rules that may be used; empty: repair nothing.
            limits: The limits on arguments, also for the values of text inside of them; None: no limits.
            tool_names: The names of the tool. A whole call inside of the arguments is opened only if it has one of
                these names; empty: any name.

        Returns:
            The params and the repairs; the refusal of what the repairs leave; None if nothing was repaired.
            Arguments from a program are never repaired.
        """
        if not rules or type(arguments) is Given:
            return None
        repaired = repair_arguments(self, arguments, error, rules, limits, tool_names)
        if repaired is None or isinstance(repaired, InvalidParams):
            return repaired
        params, draft = repaired
        repairs = (*draft.repairs, *(list_kept(draft.arguments, self.names) if self.is_open else ()))
        return params, repairs if self.secrets is None else self.secrets.hide_repairs(repairs, arguments)

    def find_kept(self, arguments: object) -> tuple[Repair, ...]:
        """List the undeclared names of valid arguments that look like misspelt parameters, see `renames.list_kept`.

        Such a call is valid and stays as it is: an open schema permits any name.
        """
        if type(arguments) is Given or (sent := read_arguments(arguments)) is None:
            return ()
        kept = list_kept(sent, self.names)
        return kept if self.secrets is None or not kept else self.secrets.hide_repairs(kept, arguments)

    def advise(self, arguments: Any, error: InvalidParams, repairs: tuple[Repair, ...] = ()) -> InvalidParams:
        """Add suggestions to a refusal: the names and values that the model may have meant.

        Args:
            arguments: The arguments as they were sent.
            error: The refusal from `parse`.
            repairs: Earlier repairs in this call, such as one of its name.

        Returns:
            The same error if there is nothing to add.
        """
        problems = with_suggestions(error.problems, arguments, self.schema, self.names)
        if markup := find_markup(arguments):
            problems = (*problems, *markup)
        if problems is error.problems and not repairs and error.sent is arguments:
            return error
        advised = InvalidParams(problems, repairs, sent=arguments, schema=self.schema)
        return advised if self.secrets is None else self.secrets.hide(advised, arguments)

    def write_accepted(self, params: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON that was accepted; see `AcceptedJson.write`. It is compiled at first use: most tools have no rules.

        Raises:
            CannotSay: The params have no such form.
        """
        if self._accepted is None:
            from .accepted_json import AcceptedJson

            make_core = self.compile().make_core
            self._accepted = AcceptedJson({}) if make_core is None else AcceptedJson.of(make_core())
        return self._accepted.write(params, defaults)

    def example(self) -> str:
        """Write the smallest valid arguments as JSON; "" if none were found. Compiles them."""
        from .example import make_example

        return make_example(self.schema)

    def find_undeclared(self, arguments: object) -> tuple[str, ...]:
        """List the names of the arguments that the schema does not declare, in the order of the call.

        Returns:
            The names; empty before the first use, and for arguments that are not an object.
        """
        sent = read_arguments(arguments) if self.is_compiled else None
        return () if sent is None else tuple(name for name in sent if name not in self.names)

    def expected_at(self, parts: Parts) -> Expected:
        """Return what the schema expects at a path. The result is cached for declared parameters."""
        last = parts[-1]
        if len(parts) == 1 and (known := self._expected.get(last)) is not None:
            return known
        name = last if isinstance(last, str) else None
        # The entry under an undeclared name is data, so null there does not mean that it is left out.
        optional = name in names_at(self.schema, parts[:-1]) and not is_required(self.schema, parts)
        forms = forms_at(self.schema, parts)
        place = (name, optional, *map(id, forms))  # the schema keeps its forms, so the ids are unique
        if (expected := self._expected_inside.get(place)) is None:
            expected = Expected.of(forms, partial(self.expected_at, [*parts, 0]), name, optional=optional)
            if len(self._expected_inside) < _MAX_EXPECTED and len(name or "") <= _MAX_NAME:
                self._expected_inside[place] = expected
        if name is not None and len(parts) == 1 and name in self.names:
            self._expected[name] = expected
        return expected

    def _guard_secrets(self, compiled: Compiled) -> Compiled:
        secret = SecretSchema.find(compiled.schema)
        if secret is None:
            return compiled
        from ..privacy.secret_guard import SecretGuard

        self.secrets = SecretGuard(secret)
        return compiled._replace(parse=self.secrets.guard(compiled.parse))

    def _compile_and_parse(self, arguments: object) -> dict[str, Any] | InvalidParams | MalformedCall:
        return self.compile().parse(arguments)


def copy_containers(params: dict[str, Any]) -> dict[str, Any]:
    """Copy arguments with all dicts, lists, tuples and sets in them. Objects of other classes are shared.

    Returns:
        The copy; the arguments themselves if they are nested too deeply for Python.
    """
    try:
        return cast("dict[str, Any]", _copy(params, {}))
    except RecursionError:
        return params


def _copy(value: Any, known: dict[int, Any]) -> Any:
    kind = cast("type[Any]", type(value))
    if kind not in _CONTAINERS:
        return value
    made: Any = known.get(id(value))
    if made is not None:  # the value occurs twice, or contains itself
        return made
    if kind is dict:
        made = known[id(value)] = _copy_dict(value)
        for key, each in value.items():
            if type(each) in _CONTAINERS:
                made[key] = _copy(each, known)
    elif kind is list:
        made = known[id(value)] = value.copy()
        if len(value) <= _FEW or not _copy_many(made, known):
            for place, each in enumerate(value):
                if type(each) in _CONTAINERS:
                    made[place] = _copy(each, known)
    else:
        made = known[id(value)] = kind(_copy(each, known) for each in value)
    return made


def _copy_many(items: list[Any], known: dict[int, Any]) -> bool:
    """Put copies in the place of items, in C, if each is a scalar, or each a dict of scalars that occurs once."""
    kinds = set(map(type, items))
    if _CONTAINERS.isdisjoint(kinds):
        return True
    if not (_DICTS.issuperset(kinds) and _CONTAINERS.isdisjoint(map(type, chain.from_iterable(map(_values, items))))):
        return False
    copies = dict(zip(map(id, items), map(_copy_dict, items), strict=True))
    if len(copies) < len(items) or not known.keys().isdisjoint(copies):
        return False
    known.update(copies)
    items[:] = copies.values()
    return True
