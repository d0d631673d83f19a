# ...


def lifter_critic_network() -> ValueOperator:
    """Make a network from `state`, float32 [3] in [-4, 4], `lifter.observation`, float32 [1] in [-4, 4],
    to `lifter.state_value`, float32 [1]. One for all agents.
    """
    return ValueOperator(
        CentralizedNet(
            MLP(in_features=4, out_features=1, num_cells=[32], activation_class=nn.ReLU), n_agents=2,
            inputs=["root", "each"],
        ),
        in_keys=["state", ("lifter", "observation")],
        out_keys=[("lifter", "state_value")],
    )


# ...


def helper_critic_network() -> ValueOperator:
    """Make a network from `state`, float32 [3] in [-4, 4], to `helper.state_value`, float32 [1].

    Each agent has parameters of its own.
    """
    return ValueOperator(
        CentralizedNet(
            MultiAgentMLP(
                n_agent_inputs=3, n_agent_outputs=1, n_agents=1, centralized=False, share_params=False,
                num_cells=[32], activation_class=nn.ReLU,
            ),
            n_agents=1,
            inputs=["root"],
        ),
        in_keys=["state"],
        out_keys=[("helper", "state_value")],
    )


# ...
