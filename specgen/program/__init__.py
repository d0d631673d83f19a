"""Typed programs, between checking and planning: what a declaration computes, verifier, passes and printers."""
