"""Tools around a model: check, verify, reports, prepared files, sample models."""
