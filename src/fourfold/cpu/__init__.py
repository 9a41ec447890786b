"""Who runs nodes on the CPU: LiteRT where it is installed, else the NumPy references."""
