"""What the tests share: a TFLite model builder, a LiteRT runner and array comparison."""
