"""Quantized convolutions with dot products of four bytes."""
