"""The semantic passes: names, keys, types, domains and data flow of declarations."""
