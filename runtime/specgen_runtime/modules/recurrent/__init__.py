"""Recurrent networks as tensordict modules: single steps with kept states, and sequences of several episodes."""
