"""Language models: what `models:` declare, and the transforms of chains that run them."""
