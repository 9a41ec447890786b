"""The cache of compiled models, binaries and tuned choices, and prepared files.

`store.store` has the `Store`. A start from a prepared file does not need it.
"""
