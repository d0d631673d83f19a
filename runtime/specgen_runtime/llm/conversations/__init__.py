"""Conversations: as messages, texts and tokens, and what of them the assistant said."""
