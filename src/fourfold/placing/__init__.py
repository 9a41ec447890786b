"""Models in parts, each on the GPU or on the CPU: decided (`deciding`), kept as plain data
(`parted`), and played (`player`). A start from what is kept imports nothing that decides.
"""
