"""Choosing parameters: held-out losses in closed form, their gradients, and the search."""
