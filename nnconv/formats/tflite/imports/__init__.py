"""Importers of TFLite ops, one file a family; each ends with its table ``IMPORTERS``."""
