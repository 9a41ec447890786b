"""Fourfold inside other frameworks."""
