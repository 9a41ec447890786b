"""Model families, one per file: how to identify a family and decode its outputs.

Each function takes a description of a model, and returns the meaning of its outputs, or None if the
model belongs to another family.
"""
