"""A report of one run of a model: its data, written to JSON, and the page that shows them."""
