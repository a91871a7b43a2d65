"""Approvals: calls that wait for a person's decision, and the decisions, in a store."""

from .approvals import Approvals
from .requests import RESUMED, Approval, Requests, name_request

__all__ = ["RESUMED", "Approval", "Approvals", "Requests", "name_request"]
