"""Arguments as a framework reads them: a call that its own validation accepts is never refused, and keeps its values.

A JSON Schema says less than the function behind it: a validator that runs before the types, a second name of a
parameter, a number that pydantic reads from text. So where the schema refuses a call, the framework is asked as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, cast

import attrs
from pydantic import BaseModel, TypeAdapter
from pydantic_core import ArgsKwargs, SchemaValidator, to_json
from pydantic_core.core_schema import definitions_schema

from ..base.foreign_values import FaultBarrier, or_default
from ..base.nesting import refuse_deep
from ..engine.errors import InvalidParams, MalformedCall, Repair
from ..parameters import Limits, Parameters, Parse, Rule, copy_containers

# Reads arguments, an object or JSON text, as the framework does before it runs a tool, without running it. Any
# exception is a refusal. Of two definitions of one tool, equal readers read alike.
Reader: TypeAlias = Callable[[Any], object]


class Accepted(dict[str, Any]):
    """Arguments that the framework has validated, and may have converted to Python values: they run as they are."""


@attrs.define(eq=False)
class HostParameters(Parameters):
    """The parameters of a tool of a framework, by the JSON Schema that its model sees, and by what the framework reads.

    Attributes:
        read: Reads arguments as the framework does; None: only the schema is known.
    """

    read: Reader | None = attrs.field(default=None, kw_only=True, repr=False)

    @classmethod
    def around(cls, parameters: Parameters, read: Reader | None) -> HostParameters:
        """The same parameters, asked after the framework."""
        compiled = parameters.compile()
        made = cls(lambda: compiled._replace(parse=_let_accepted_pass(compiled.parse)), read=read)
        made.compile()
        return made

    def is_settled(self, arguments: Any, error: InvalidParams, rules: frozenset[Rule], longest: int) -> bool:
        """As in `Parameters`; with a reader nothing is settled before it was asked."""
        return self.read is None and super().is_settled(arguments, error, rules, longest)

    def repair(
        self,
        arguments: object,
        error: InvalidParams | MalformedCall,
        rules: frozenset[Rule],
        limits: Limits | None = None,
        tool_names: Collection[str] = (),
    ) -> tuple[dict[str, Any], tuple[Repair, ...]] | InvalidParams | None:
        """As in `Parameters`. A repair does not change what the framework reads from the arguments as they were sent.

        Returns:
            The repaired params; the params as they were sent, without repairs, if the framework accepts them and reads
            something else from the repaired ones.
        """
        if type(arguments) is Accepted:
            return None
        repaired = super().repair(arguments, error, rules, limits, tool_names)
        if self.read is None:
            return repaired
        sent = load(arguments)
        if sent is None:
            return repaired
        with FaultBarrier():  # a refusal; a validator of the user's may raise anything
            value = self.read(arguments if isinstance(arguments, str) else copy_containers(sent))
            if type(repaired) is not tuple or not self._reads_the_same(repaired[0], value):
                return copy_containers(sent), ()
        return repaired

    @or_default(False)  # noqa: FBT003  # after a refusal, and for a value that cannot be compared
    def _reads_the_same(self, params: dict[str, Any], value: object) -> bool:
        read: Any = self.read
        other: Any = read(copy_containers(params))
        return bool(other == value) and repr(other) == repr(value)  # 1 == True == 1.0


def load(arguments: object) -> dict[str, Any] | None:
    """Return the object that a framework finds in arguments, which may be JSON text; None: it finds no object."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(refuse_deep(arguments)) if arguments else {}
        except ValueError:
            return None
    return dict(cast("Mapping[str, Any]", arguments)) if isinstance(arguments, Mapping) else None


def _let_accepted_pass(parse: Parse) -> Parse:
    def parse_or_pass(arguments: object) -> Any:
        return copy_containers(dict(arguments)) if type(arguments) is Accepted else parse(arguments)

    return parse_or_pass


@attrs.frozen
class ModelReader:
    """Reads arguments by a model of pydantic."""

    model: type[BaseModel]
    filled: tuple[str, ...] = ()  # fields that the framework fills in, whatever was sent

    def __call__(self, arguments: Any) -> object:
        """Return the values of the fields; extra names are left out."""
        sent = load(arguments)
        return vars(self.model.model_validate({**sent, **dict.fromkeys(self.filled)} if sent and self.filled else sent))


@attrs.frozen
class ValidatorReader:
    """Reads arguments by a validator of pydantic, text in JSON mode."""

    validator: SchemaValidator  # returns a dict, or the arguments of a function
    context: object = None  # for validators that take one
    strict: bool = False  # whether an object is read in JSON mode too, without conversions such as of "10" to 10

    def __call__(self, arguments: Any) -> object:
        """Return the values."""
        if self.strict:
            found = self.validator.validate_json(to_json(arguments), strict=True, context=self.context)
        elif isinstance(arguments, str):
            found = self.validator.validate_json(arguments or "{}", context=self.context)
        else:
            found = self.validator.validate_python(arguments, context=self.context)
        return (found.args, found.kwargs) if isinstance(found, ArgsKwargs) else found


_NO_NAME = "\0"


def checks_names(validator: SchemaValidator) -> bool:
    """Whether a validator looks at its arguments; for a tool with a JSON Schema it may take any object."""
    return not validator.isinstance_python({_NO_NAME: None})


def find_arguments_validator(adapter: TypeAdapter[Any]) -> SchemaValidator | None:
    """Make a validator of the arguments of a function, of an adapter that would call it; None: it calls none."""
    schema: Any = adapter.core_schema
    definitions: list[Any] = schema["definitions"] if schema["type"] == "definitions" else []
    call = schema["schema"] if definitions else schema
    if call["type"] != "call":
        return None
    arguments = call["arguments_schema"]
    return SchemaValidator(definitions_schema(arguments, definitions) if definitions else arguments)
