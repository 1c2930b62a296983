"""nnconv converts neural-network models between formats and runs them on devices."""

__version__ = "0.1.0"
