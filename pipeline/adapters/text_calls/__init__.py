"""Calls that a model wrote as text: open models do so if their server does not know their format."""

from .text_reader import TextCalls, check_forms, read_text_calls

__all__ = ["TextCalls", "check_forms", "read_text_calls"]
