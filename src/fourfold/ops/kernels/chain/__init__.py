"""Chains of small nodes that run in one kernel."""
