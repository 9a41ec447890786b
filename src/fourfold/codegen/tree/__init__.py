"""Kernel trees as text, independent of GPU languages: one statement per line."""
