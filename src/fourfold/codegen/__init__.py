"""The kernel language: expressions, statements, views, and one renderer per GPU language."""
