"""Executors: what runs a model, each behind the same small protocol."""
