"""KL penalties between two models: log-probabilities of both, their divergence, and the reward without it."""
