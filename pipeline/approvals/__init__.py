"""Approvals: calls that wait for a person's decision, and the decisions, in a store."""

from .approval_requests import RESUMED, Approval, Requests, name_request
from .approvals import Approvals

__all__ = ["RESUMED", "Approval", "Approvals", "Requests", "name_request"]
