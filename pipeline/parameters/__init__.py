"""What a tool takes: its schema, and how arguments become params, are repaired or refused. See README.md."""

from .coercions import RULES, Rule
from .reading import read_arguments
from .tool_parameters import Compiled, Parameters, Parse, Undeclared

__all__ = ["RULES", "Compiled", "Parameters", "Parse", "Rule", "Undeclared", "read_arguments"]
