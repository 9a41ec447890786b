"""OpenCL C: how kernels are written in it, its prelude, and its persistent kernel."""
