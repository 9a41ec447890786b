"""Convolutions of bytes, by dot products of four at once."""
