"""Convolutions with register tiles: tile choices, input reads and kernels."""
