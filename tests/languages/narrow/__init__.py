"""A language with few features."""
