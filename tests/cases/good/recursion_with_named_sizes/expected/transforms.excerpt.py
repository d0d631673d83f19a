# ...


def spread_open(n: int, x: Tensor) -> Tensor:
    """`y` behind the last moment, where the data end without `done`.

    Args:
        n: the size of `x` along axis -1.
        x: float32 [*batch, n], at the root.
    """
    # transforms.Spread.offline
    return x / n


# ...


class Spread(RecursionTransform[SpreadKeys]):
    # ...

    def _recur(self, recorded: RecordedTimes, key: SpreadKeys) -> Mapping[str, Tensor]:
        made: dict[str, Tensor] = {}
        x = recorded.now(key.x)
        next_x = recorded.following(key.x)
        open_y = spread_open(x.shape[-1], x[-1])
        y = spread_offline(x.shape[-1], next_x, recorded.restarts(key.x, next_x), open_y)
        made["y"] = y
        return made


# ...


def shared_offline(n: int, next_r: Tensor, ends: Tensor) -> Tensor:
    """`y` of all moments, computed from the last to the first.

    Args:
        n: the size of `x` along axis -1.
        next_r: float32 [time, *batch], under `next`.
        ends: bool [time, *batch, ...], where an episode ends.
    """
    # transforms.Shared.offline
    previous_y = torch.zeros_like(next_r[0])
    y = torch.empty_like(next_r)
    for t in reversed(range(next_r.shape[0])):
        acc_y = torch.where(ends[t], 0.0, previous_y)
        previous_y = next_r[t] + acc_y / n
        y[t] = previous_y
    return y


class Shared(RecursionTransform[SharedKeys]):
    # ...

    def _recur(self, recorded: RecordedTimes, key: SharedKeys) -> Mapping[str, Tensor]:
        made: dict[str, Tensor] = {}
        next_r = recorded.following(key.r)
        next_x = recorded.following(key.x)
        y = shared_offline(next_x.shape[-1], next_r, recorded.restarts(key.r, next_r))
        made["y"] = y
        return made
