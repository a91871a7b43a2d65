"""Pydantic's types of errors in terms of JSON Schema, which is what a model was shown."""

from __future__ import annotations

from typing import LiteralString

# The JSON Schema keyword that an error of pydantic's breaks (2020-12, validation vocabulary), by its type.
KEYWORDS = {
    "literal_error": "enum",
    "enum": "enum",
    "greater_than": "exclusiveMinimum",
    "greater_than_equal": "minimum",
    "less_than": "exclusiveMaximum",
    "less_than_equal": "maximum",
    "multiple_of": "multipleOf",
    "string_too_short": "minLength",
    "string_too_long": "maxLength",
    "bytes_too_short": "minLength",
    "bytes_too_long": "maxLength",
    "url_too_long": "maxLength",
    "string_pattern_mismatch": "pattern",
    "too_short": "minItems",
    "too_long": "maxItems",
    "equal_keys": "propertyNames",  # of `equal_keys`
}
# Of these keywords pydantic gives more numbers than the bound: which of them is the bound.
BOUNDS = {"minItems": "min_length", "maxItems": "max_length"}
# A value of another type: what was expected.
TYPES: dict[str, LiteralString] = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "a boolean",
    "string_type": "a string",
    "bytes_type": "a string",
    "list_type": "an array",
    "tuple_type": "an array",
    "set_type": "an array",
    "frozen_set_type": "an array",
    "deque_type": "an array",
    "iterable_type": "an array",
    "named_tuple_type": "an array",
    "dict_type": "an object",
    "frozen_dict_type": "an object",
    "ordered_dict_type": "an object",
    "counter_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "dataclass_exact_type": "an object",
    "none_required": "null",
    "time_delta_type": "a duration",
    "decimal_type": "a number",
    "fraction_type": "a number",
    "uuid_type": "a UUID",
    "url_type": "a URL",
    "complex_type": "a complex number",
}
# Where the message of pydantic would not do: what was expected, with the facts of the error filled in.
FORMATS = {
    "is_instance_of": "of another type",  # pydantic's own message names a class
    "is_subclass_of": "of another type",
    "time_delta_parsing": "a valid duration",
    "complex_str_parsing": "a complex number",
    "date_from_datetime_inexact": "a date without a time",
    "string_pattern_mismatch": "text that matches {pattern}",
    "url_scheme": "a URL that begins with {expected_schemes}",
    "uuid_version": "a UUID of version {expected_version}",
}
