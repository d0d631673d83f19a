"""Chains as flat records: fused functions and the class around them."""
