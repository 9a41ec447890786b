"""Accuracy of a model on a labelled dataset: on the device, and in the reference runtime."""
