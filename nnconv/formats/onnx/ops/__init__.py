"""Exporters to ONNX, one file a family (the ops' own stem); each ends with its table ``EXPORTERS``."""
