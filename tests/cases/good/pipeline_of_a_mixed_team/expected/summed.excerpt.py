# ...


def mixer_network() -> SafeModule:
    """Make one value of the team of `robot.chosen_action_value`, those of its 2 agents."""
    return SafeModule(
        VDNMixer(2), in_keys=[("robot", "chosen_action_value")], out_keys=["chosen_action_value"]
    )


# ...
