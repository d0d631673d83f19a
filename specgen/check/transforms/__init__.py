"""Transforms: what their declarations say, proved of every chain that may take them."""
