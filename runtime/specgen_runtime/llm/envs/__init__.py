"""Environments of conversations: prompts, tools and rewards."""
