"""Kernels as text of no GPU language: their trees written down, one statement a line."""
