"""The model formats, a folder each; none knows another."""
