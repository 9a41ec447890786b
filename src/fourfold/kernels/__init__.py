"""Families of kernels that several ops share."""
