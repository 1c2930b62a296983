"""The TFLite format: reading .tflite files and giving their content a meaning."""
