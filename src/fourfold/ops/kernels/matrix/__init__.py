"""Convolutions on matrix units (tensor cores)."""
