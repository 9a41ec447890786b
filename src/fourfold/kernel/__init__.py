"""The kernel language: expressions, statements, tensors as views, and one renderer per GPU
language.
"""
