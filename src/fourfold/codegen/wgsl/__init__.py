"""WGSL, the language of WebGPU: one module per entry point."""
