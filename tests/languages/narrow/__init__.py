"""A language that can say little."""
