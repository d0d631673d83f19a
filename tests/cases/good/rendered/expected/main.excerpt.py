# ...


class BallsPicture(NamedTuple):
    """What `balls_render` returns."""

    view_left: Float32[Tensor, "*batch"]
    view_right: Float32[Tensor, "*batch"]
    balls_at_x: Float32[Tensor, "*batch 3"]
    balls_at_y: Float32[Tensor, "*batch 3"]
    balls_radius: Float32[Tensor, "*batch"]
    balls_color: Int64[Tensor, "*batch"]
    spots_at_x: Float32[Tensor, "*batch 3"]
    spots_at_y: Float32[Tensor, "*batch 3"]
    spots_when: Bool[Tensor, "*batch 3"]
    path_x: Float32[Tensor, "*batch 3"]
    path_y: Float32[Tensor, "*batch 3"]
    roofs_x: Float32[Tensor, "*batch 3 3"]
    roofs_y: Float32[Tensor, "*batch 3 3"]
    box_at_x: Float32[Tensor, "*batch"]
    mode_text: Int64[Tensor, "*batch"]
    mode_value_0: Float32[Tensor, "*batch"]


def balls_render(
    params: BallsParams, consts: BallsConsts, x: Tensor, mode: Tensor, wide: Tensor
) -> BallsPicture:
    """The numbers of the picture of a state, for any leading dimensions.

    Args:
        params: constructor keywords of the environment.
        consts: constant tables of the environment.
        x, mode, wide: as in `BallsRoot`.
    """
    # envs.Balls.render
    middle = x.mean(dim=-1)
    step_x = torch.tensor((-0.5, 0.0, 0.5), dtype=torch.float32, device=mode.device)
    view_left = -wide
    view_right = wide
    balls_at_x = x
    spots_when = x > 0
    balls_at_y = consts.heights.expand(*spots_when.shape[:-1], 3).clone()
    balls_radius = torch.full_like(mode, params.radius, dtype=torch.float32)
    balls_color = mode
    spots_at_x = x
    spots_at_y = consts.heights.expand(*spots_when.shape[:-1], 3).clone()
    path_x = x
    path_y = consts.heights.expand(*spots_when.shape[:-1], 3).clone()
    roofs_x = x.unsqueeze(-1) + step_x[None, :]
    roofs_y = (
        (
            consts.heights[:, None]
            + torch.tensor((0.0, 0.5, 0.0), dtype=torch.float32, device=mode.device)[None, :]
        )
        .expand(*mode.shape, 3, 3)
        .clone()
    )
    box_at_x = middle
    mode_text = mode
    mode_value_0 = middle
    return BallsPicture(
        view_left=view_left, view_right=view_right, balls_at_x=balls_at_x, balls_at_y=balls_at_y,
        balls_radius=balls_radius, balls_color=balls_color, spots_at_x=spots_at_x, spots_at_y=spots_at_y,
        spots_when=spots_when, path_x=path_x, path_y=path_y, roofs_x=roofs_x, roofs_y=roofs_y,
        box_at_x=box_at_x, mode_text=mode_text, mode_value_0=mode_value_0,
    )


def balls_picture(numbers: BallsPicture) -> Picture:
    """The picture that shows these numbers, for any leading dimensions."""
    picture = Picture(
        size=(80, 60), x=(numbers.view_left, numbers.view_right), y=(-1.0, 1.0), background="#eeeeee"
    )
    picture.circle(
        "balls",
        at=(numbers.balls_at_x, numbers.balls_at_y),
        radius=numbers.balls_radius,
        color=(numbers.balls_color, ["red", "green", "blue"]),
    )
    picture.circle(
        "spots",
        at=(numbers.spots_at_x, numbers.spots_at_y),
        radius=0.05,
        when=numbers.spots_when,
        outline="white",
    )
    picture.polyline("path", x=numbers.path_x, y=numbers.path_y, color="gray", width=2)
    picture.polygon("roofs", x=numbers.roofs_x, y=numbers.roofs_y)
    picture.rectangle(
        "box", at=(numbers.box_at_x, 0.0), size=(0.2, 0.1), angle=0.7853981633974483, outline="black"
    )
    picture.line("ground", start=(-1.0, -1.0), end=(1.0, -1.0))
    picture.label(
        "mode",
        at=(0.0, 0.8),
        text=(numbers.mode_text, ["calm {}", "fast {}", "{} wild"]),
        values=(numbers.mode_value_0,),
    )
    return picture


class Balls(RenderedEnv["BallsData", "BallsSpecs"]):
    # ...

    def _picture(self, root: BallsRoot) -> Picture:
        return balls_picture(balls_render(self.params, self.consts, root.x, root.mode, root.wide))


# ...


class BallsLater(RenderedEnv["BallsLaterData", "BallsLaterSpecs"]):
    # ...

    def _picture(self, root: BallsLaterRoot) -> Picture:
        return balls_picture(balls_render(self.params, self.env_consts, root.x, root.mode, root.wide))

    # ...


# ...
