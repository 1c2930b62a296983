"""The ops of the IR, one file a family."""
