"""Depthwise convolutions, which filter each channel separately."""
