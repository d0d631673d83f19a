"""Language models: how they are loaded, sample answers and score tokens."""
