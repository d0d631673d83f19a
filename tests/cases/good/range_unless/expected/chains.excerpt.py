# ...


def from_the_front_observe(th: Tensor, thdot: Tensor) -> FromTheFrontObservation:
    """The observation of a state, for any leading dimensions."""
    # envs.Pendulum
    observation = pendulum_observe(th, thdot)
    # chains.FromTheFront.transforms[0]
    pair = torch.stack((th, thdot), dim=-1)
    # chains.FromTheFront.transforms[1]
    row = pair.unsqueeze(-2)
    # chains.FromTheFront.transforms[2]
    flat = row.flatten(-2, -1)
    # chains.FromTheFront.transforms[3]
    row_squeezed = row.squeeze(-2)
    return FromTheFrontObservation(observation=observation, pair=pair, row=row_squeezed, flat=flat)


# ...
