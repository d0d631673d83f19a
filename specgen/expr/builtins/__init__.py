"""The built-in functions and operators: one table of frozen records."""
