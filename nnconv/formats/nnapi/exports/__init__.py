"""Exporters of the IR's ops as NNAPI operations, one file a family of ops."""
