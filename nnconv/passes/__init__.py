"""Graph to graph: one job and one file each."""
