"""Plays plans in NumPy, work-item by work-item, and finds what is wrong with their kernels."""
