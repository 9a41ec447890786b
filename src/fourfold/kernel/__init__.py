"""The kernel language: expressions, statements, views of tensors, and one renderer per GPU
language.
"""
