"""Experiments on top of the library: what the documentation reports, and how to run it again."""
