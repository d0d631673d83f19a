"""Losses as flat records: a pure function of tensors and the class around it."""
