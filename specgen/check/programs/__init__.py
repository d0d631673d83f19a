"""Checked declarations as programs: what each computes, over symbols that know where they are defined."""
