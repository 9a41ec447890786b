"""What is kept between runs: plans, binaries and tuned choices, and files made for shipping.

`store.store` has the Store. A start from a prepared file does without it.
"""
