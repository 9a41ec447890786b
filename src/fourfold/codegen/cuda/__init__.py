"""CUDA C: dialect, prelude of vector types, and persistent kernel."""
