"""Specs of what is not a tensor."""
