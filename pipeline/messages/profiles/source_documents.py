"""The texts of four source documents, as templates. An error without one gets the default text.

``tests/test_messages_profiles.py`` compares each string with its document, and says where we differ from it and why.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.errors import ERROR_TYPES
from ..templates import Texts

# llmproc's "Tool Error Handling Guidelines": one text for every tool that is not available, the details of wrong
# parameters, and nothing about the inside of the tool.
_NOT_AVAILABLE = "This tool is not available"
LLMPROC: Mapping[str, Texts] = {
    "unknown_tool": _NOT_AVAILABLE,
    "unavailable": _NOT_AVAILABLE,
    "validation": (
        "Error: Invalid parameter value for {parameter}: must be {expected}",
        "Error: Invalid parameters: must be {expected}",
    ),
    "validation.required": "Error: Missing required parameter: {parameter}",
    "validation.additionalProperties": (
        "Error: Unknown parameter: {parameter}. Did you mean: {suggestions}?",
        "Error: Unknown parameter: {parameter}",
    ),
    "validation.validator": (
        "Error: Invalid parameter value for {parameter}: {expected}",
        "Error: Invalid parameters: {expected}",
    ),
    "internal": "An unexpected error occurred while executing this tool",
}

# RFC015, "Graceful Tool Name Error Handling", in the blank-line form of its code.
_EXECUTING = ("Error executing tool '{tool}': {text}", "Error executing this tool: {text}")
_NAMES_AND_QUESTIONS = ("unknown_tool", "needs_input")
_AGAIN = "Please try again with one of the available tools."
RFC015: Mapping[str, Texts] = {
    "unknown_tool": (
        f"Error: Tool '{{tool}}' not found.\n\nAvailable tools: {{available}}\n\n{_AGAIN}",
        f"Error: Tool '{{tool}}' not found.\n\nAvailable tools: {{count}}, none with a similar name\n\n{_AGAIN}",
        f"Error: Tool '{{tool}}' not found.\n\nDid you mean: {{suggestions}}?\n\n{_AGAIN}",
        f"Error: Tool '{{tool}}' not found.\n\n{_AGAIN}",
    ),
    "unknown_tool.empty": "Error: Tool '{tool}' not found.\n\nNo tools are available.",
    **{each.kind: _EXECUTING for each in ERROR_TYPES if each.kind not in _NAMES_AND_QUESTIONS},
}

# "Tool Error Handling Analysis": the field ``error`` of its ToolErrorResponse, without the value that was sent.
STRUCTURED: Mapping[str, Texts] = {
    "validation": (
        "Invalid parameter value for {parameter}: must be {expected}",
        "Invalid parameters: must be {expected}",
    ),
    "validation.required": "Missing required parameter: {parameter}",
    "validation.additionalProperties": "Unknown parameter: {parameter}",
    "validation.validator": ("Invalid parameter value for {parameter}: {expected}", "{expected}"),
    "unknown_tool": "Tool '{tool}' not found. Please try again with one of the available tools.",
    "unknown_tool.empty": "Tool '{tool}' not found. No tools are available.",
    "not_found": ("{message}", "Not found"),
    "execution": ("{message}", "Tool execution failed"),
}

# "Tool Registration Design: batch.rs and invalid.rs": ``Unknown tool: {}. Error: {}``.
INVALID_TOOL: Mapping[str, Texts] = {
    "unknown_tool.empty": "Unknown tool: {tool}. Error: there is no such tool, and no tools are available.",
    "unknown_tool": (
        "Unknown tool: {tool}. Error: there is no such tool. Did you mean: {suggestions} (of {count} tools)?",
        "Unknown tool: {tool}. Error: there is no such tool. Did you mean: {suggestions}?",
        "Unknown tool: {tool}. Error: there is no such tool. Available tools: {available}",
        "Unknown tool: {tool}. Error: there is no such tool. Available tools: {count}, none with a similar name",
        "Unknown tool: {tool}. Error: there is no such tool, and none has a similar name.",
    ),
}
