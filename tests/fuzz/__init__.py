"""Campaigns of random inputs: small ones run with the tests, large ones as scripts."""
