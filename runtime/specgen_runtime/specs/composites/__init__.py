"""The spec of a tensordict."""
