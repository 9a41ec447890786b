"""Kernel families that several ops share."""
