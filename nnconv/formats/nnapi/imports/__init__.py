"""Reading NNAPI operations into the IR, one file an op family; each has a table IMPORTERS."""
