"""Plays plans on OpenCL devices."""
