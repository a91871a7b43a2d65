"""Runs tools in actors of a Ray cluster."""
