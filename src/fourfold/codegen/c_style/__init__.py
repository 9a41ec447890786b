"""Rendering shared by C-like kernel languages; each of them is a dialect."""
