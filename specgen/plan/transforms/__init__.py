"""Transforms as flat records: pure functions and the class around them."""
