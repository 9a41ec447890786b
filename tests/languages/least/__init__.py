"""A language that can say less."""
