"""CUDA C: how kernels are written in it, its prelude of vectors, and its persistent kernel."""
