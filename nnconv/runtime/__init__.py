"""The programming models of NNAPI and NNRt, on one shared core."""
