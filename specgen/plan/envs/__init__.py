"""Environments as flat records: native, over Gymnasium, and in Python."""
