"""NNRt models: OpenHarmony's Neural Network Runtime (OH_NN)."""
