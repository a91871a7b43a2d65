"""Adapters between the wire formats of model providers and our calls and outcomes: pure functions, no SDK imported."""
