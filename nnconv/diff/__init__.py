"""Running two models on the same inputs and comparing what they give."""
