# ...


def robot_value_network() -> ValueOperator:
    """Make a network from `robot.observation` of all 2, float32 [2], `walker.observation`, float32 [1],
    `robot.action` of all 2, float32 [1] in [-1, 1], `walker.action`, float32 [1] in [-1, 1], to
    `robot.state_action_value`, float32 [1]. Each agent has parameters of its own.
    """
    return ValueOperator(
        CentralizedNet(
            MultiAgentMLP(
                n_agent_inputs=8, n_agent_outputs=1, n_agents=2, centralized=False, share_params=False,
                num_cells=[32], activation_class=nn.ReLU,
            ),
            n_agents=2,
            inputs=["all", "all", "all", "all"],
        ),
        in_keys=[
            ("robot", "observation"),
            ("walker", "observation"),
            ("robot", "action"),
            ("walker", "action"),
        ],
        out_keys=[("robot", "state_action_value")],
    )


# ...


def walker_value_network() -> ValueOperator:
    """Make a network from `robot.observation` of all 2, float32 [2], `walker.observation`, float32 [1],
    `robot.action` of all 2, float32 [1] in [-1, 1], `walker.action`, float32 [1] in [-1, 1], to
    `walker.state_action_value`, float32 [1]. One for all agents.
    """
    return ValueOperator(
        CentralizedNet(
            MLP(in_features=8, out_features=1, num_cells=[32], activation_class=nn.ReLU), n_agents=1,
            inputs=["all", "all", "all", "all"],
        ),
        in_keys=[
            ("robot", "observation"),
            ("walker", "observation"),
            ("robot", "action"),
            ("walker", "action"),
        ],
        out_keys=[("walker", "state_action_value")],
    )


# ...


def update(parts: Crossings, batch: TensorDictBase) -> CrossingsMetrics:
    """Take a step of the optimizers on a batch, and one of the targets.

    Args:
        parts: the parts; they change.
        batch: [batch]; what the losses read.
    """
    write_next_actions(parts.walker_loss, "actor_network", batch)
    write_next_actions(parts.robot_loss, "actor_network", batch)
    robot_losses = parts.robot_loss(batch)
    walker_losses = parts.walker_loss(batch)
    loss = (
        robot_losses["loss_actor"]
        + robot_losses["loss_value"]
        + walker_losses["loss_actor"]
        + walker_losses["loss_value"]
    )
    parts.actors_optimizer.zero_grad()
    parts.critics_optimizer.zero_grad()
    torch.autograd.backward(loss)
    parts.actors_optimizer.step()
    parts.critics_optimizer.step()
    parts.robot_updater.step()
    parts.walker_updater.step()
    return CrossingsMetrics(
        robot_loss_actor=robot_losses["loss_actor"].detach(),
        robot_loss_value=robot_losses["loss_value"].detach(),
        robot_pred_value_max=robot_losses["pred_value_max"].detach(),
        robot_target_value_max=robot_losses["target_value_max"].detach(),
        robot_pred_value=robot_losses["pred_value"].detach().mean(),
        robot_target_value=robot_losses["target_value"].detach().mean(),
        robot_td_error=robot_losses["td_error"].detach().mean(),
        walker_loss_actor=walker_losses["loss_actor"].detach(),
        walker_loss_value=walker_losses["loss_value"].detach(),
        walker_pred_value_max=walker_losses["pred_value_max"].detach(),
        walker_target_value_max=walker_losses["target_value_max"].detach(),
        walker_pred_value=walker_losses["pred_value"].detach().mean(),
        walker_target_value=walker_losses["target_value"].detach().mean(),
        walker_td_error=walker_losses["td_error"].detach().mean(),
    )


# ...
