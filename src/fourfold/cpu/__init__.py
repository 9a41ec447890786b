"""Who runs nodes on the CPU: today the NumPy references."""
