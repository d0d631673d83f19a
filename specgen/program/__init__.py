"""The typed program: what a declaration computes, between checking and printing. No printed text anywhere."""
