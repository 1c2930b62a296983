"""Writing the IR's ops as NNRt operations, a file for each file of ``nnconv.ops``."""
