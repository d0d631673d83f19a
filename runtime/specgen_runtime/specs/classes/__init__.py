"""Specs whose values are classes: as indices, or as one-hot vectors."""
