"""A language with the fewest features."""
