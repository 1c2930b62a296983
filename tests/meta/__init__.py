"""Tests of the project itself: layering, import cost, sizes, public names, documents."""
