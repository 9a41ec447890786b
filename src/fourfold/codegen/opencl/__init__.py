"""OpenCL C: dialect, prelude and persistent kernel."""
