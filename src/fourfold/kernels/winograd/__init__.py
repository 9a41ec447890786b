"""Convolutions by Winograd's transforms."""
