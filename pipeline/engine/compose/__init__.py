"""Stages become a pipeline: stacks, their order, and the chain that a call runs through."""

from .deadline import run_within
from .pipeline import Pipeline
from .stack import Stack
from .stage import Check, Handler, Middleware, Placement, ToolChecker

__all__ = ["Check", "Handler", "Middleware", "Pipeline", "Placement", "Stack", "ToolChecker", "run_within"]
