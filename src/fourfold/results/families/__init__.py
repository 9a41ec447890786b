"""What is known of families of models: a file each, with how it is told, and how it is decoded.

A family's function takes a model, by what it takes and gives, and says what its outputs mean; or
None where it is of another family.
"""
