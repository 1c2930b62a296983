"""NNAPI, Android's Neural Networks API: its models, and nnconv's file format for them."""
