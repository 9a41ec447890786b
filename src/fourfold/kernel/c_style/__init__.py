"""What languages that look like C have in common: each of them is a dialect."""
