"""The ONNX format."""
