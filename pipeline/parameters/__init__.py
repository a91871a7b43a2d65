"""What a tool takes: its schema, and how arguments become params, are repaired or refused. See README.md."""

from .coercions import RULES, Rule
from .containers import copy_containers
from .hostile import check_schema
from .limits import Limits
from .reading import read_arguments
from .tool_parameters import Compiled, Given, Parameters, Parse, Undeclared

__all__ = [
    "RULES",
    "Compiled",
    "Given",
    "Limits",
    "Parameters",
    "Parse",
    "Rule",
    "Undeclared",
    "check_schema",
    "copy_containers",
    "read_arguments",
]
