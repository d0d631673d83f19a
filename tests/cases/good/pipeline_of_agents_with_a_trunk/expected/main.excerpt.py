# ...


def eyes() -> Trunk:
    """Make layers from `robot.observation`, float32 [2], to 32 features, on which `memory` and
    `critic_network` stand.
    """
    return Trunk(
        SafeModule(
            MLP(
                in_features=2, out_features=32, num_cells=[], activation_class=nn.ReLU,
                activate_last_layer=True,
            ),
            in_keys=[("robot", "observation")],
            out_keys=["eyes_features"],
        )
    )


# ...


def critic_network(eyes: Trunk) -> SafeSequential:
    """Make a network from the features of `eyes`, to `robot.state_value`, float32 [1].

    One for all agents, each by itself.
    """
    return SafeSequential(
        eyes,
        ValueOperator(
            MLP(in_features=32, out_features=1, num_cells=[], activation_class=nn.ReLU),
            in_keys=["eyes_features"], out_keys=[("robot", "state_value")],
        ),
    )


# ...
