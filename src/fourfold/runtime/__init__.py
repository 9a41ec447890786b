"""From a request to arrays: loading a model, its inputs, and playing it."""
