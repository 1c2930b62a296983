"""NNRt operations into the IR, a module for each family."""
