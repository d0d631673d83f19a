"""Warnings about declarations that are legal and rarely meant; each looks at what has been checked."""
