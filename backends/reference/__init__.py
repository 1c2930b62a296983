"""The reference backend: plain numpy kernels, the oracle that everything else is held to."""
