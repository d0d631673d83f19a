"""Feed-forward networks: perceptrons, convolutions, dueling networks, networks of several agents, noisy layers."""
