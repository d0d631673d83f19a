"""specgen: declare, check and generate reinforcement-learning environments, transforms and losses."""
