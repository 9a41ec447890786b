"""Convolutions by register tiles: tiles, what they read, and the kernels."""
