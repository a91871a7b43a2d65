"""Audit: the rows of what was asked, decided, run and answered, each with the digest of the one before."""

from .audit_log import AuditLog, Row, Verdict
from .decisions import note_decision, with_decisions

__all__ = ["AuditLog", "Row", "Verdict", "note_decision", "with_decisions"]
