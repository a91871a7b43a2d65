"""The texts of four of the source documents, as templates. What has none here has the default text.

``tests/test_messages_profiles.py`` holds each of their strings to the byte, and says where we part from them.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..templates import Words

# llmproc's "Tool Error Handling Guidelines": one text for all that is not available, details of parameters, and
# nothing of what happened inside.
_NOT_AVAILABLE = "This tool is not available"
LLMPROC: Mapping[str, Words] = {
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
_OF_ALL_BUT_NAMES = (
    "unavailable",
    "not_executed",
    "malformed_call",
    "validation",
    "not_found",
    "permission",
    "configuration",
    "timeout",
    "transient",
    "execution",
    "outcome_unknown",
    "internal",
)
_AGAIN = "Please try again with one of the available tools."
RFC015: Mapping[str, Words] = {
    "unknown_tool": (
        f"Error: Tool '{{tool}}' not found.\n\nAvailable tools: {{available}}\n\n{_AGAIN}",
        f"Error: Tool '{{tool}}' not found.\n\nDid you mean: {{suggestions}}?\n\n{_AGAIN}",
        f"Error: Tool '{{tool}}' not found.\n\n{_AGAIN}",
    ),
    **dict.fromkeys(_OF_ALL_BUT_NAMES, _EXECUTING),
}

# "Tool Error Handling Analysis": the field ``error`` of its ToolErrorResponse, in which no value is repeated.
STRUCTURED: Mapping[str, Words] = {
    "validation": (
        "Invalid parameter value for {parameter}: must be {expected}",
        "Invalid parameters: must be {expected}",
    ),
    "validation.required": "Missing required parameter: {parameter}",
    "validation.additionalProperties": "Unknown parameter: {parameter}",
    "validation.validator": ("Invalid parameter value for {parameter}: {expected}", "{expected}"),
    "unknown_tool": "Tool '{tool}' not found. Please try again with one of the available tools.",
    "not_found": ("{message}", "Not found"),
    "execution": ("{message}", "Tool execution failed"),
}

# "Tool Registration Design: batch.rs and invalid.rs": ``Unknown tool: {}. Error: {}``.
INVALID_TOOL: Mapping[str, Words] = {
    "unknown_tool": (
        "Unknown tool: {tool}. Error: there is no such tool. Did you mean: {suggestions}?",
        "Unknown tool: {tool}. Error: there is no such tool. Available tools: {available}",
        "Unknown tool: {tool}. Error: there is no such tool, and none has a similar name.",
    ),
}
