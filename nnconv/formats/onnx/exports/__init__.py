"""Exporters to ONNX, one file a family (the ops' own stem).

Each ends with its table ``EXPORTERS``.
"""
