"""Reports on a model: check, estimate, verify, benchmark, and the page of a run."""
