"""WGSL, the language of WebGPU: a module for each entry point."""
