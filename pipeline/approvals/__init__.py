"""Approvals: calls that wait for a person's decision, the decisions, and standing grants, in a store."""

from .approval_requests import RESUMED, Approval, Requests
from .approvals import Approvals
from .grants import Grant

__all__ = ["RESUMED", "Approval", "Approvals", "Grant", "Requests"]
