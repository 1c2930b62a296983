"""Writing IR ops as TFLite operators, one file an op family; each has a table EXPORTERS."""
