"""Tests of the installed package; they mirror its folders."""
