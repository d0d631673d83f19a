"""Losses: what their declarations and expressions say, proved before anything of them is printed."""
