"""How ops are done in terms of simpler ops, for formats that lack them; one file an op family."""
