"""Convolutions that filter each channel alone."""
