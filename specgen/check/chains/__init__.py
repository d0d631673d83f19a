"""Chains: transforms bound to the keys of an environment, and what they give together."""
