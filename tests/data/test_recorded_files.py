"""Recorded data from where people have them: Minari's episodes, and arrays of one row a step as D4RL has them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer, load_recorded
from specgen_runtime.typing import NestedKey

Entries = dict[NestedKey, tuple[torch.dtype, tuple[int, ...]]]

ENTRIES: Entries = {
    "observation": (torch.float32, (2,)),
    ("next", "observation"): (torch.float32, (2,)),
    "action": (torch.int64, ()),
    ("next", "reward"): (torch.float32, (1,)),
    ("next", "done"): (torch.bool, (1,)),
    ("next", "terminated"): (torch.bool, (1,)),
    ("next", "truncated"): (torch.bool, (1,)),
}
STEPS = (3, 2, 4)
"""Steps of the episodes: the first is terminated, the second truncated, the third neither, since its recording ended."""
TERMINATED = [0, 0, 1, 0, 0, 0, 0, 0, 0]
TRUNCATED = [0, 0, 0, 0, 1, 0, 0, 0, 0]


def seen(episode: int, step: int) -> list[float]:
    return [float(episode), float(step)]


def flat() -> dict[str, np.ndarray[Any, Any]]:
    """The episodes as arrays of one row a step."""
    rows = [(episode, step) for episode, steps in enumerate(STEPS) for step in range(steps)]
    return {
        "observations": np.array([seen(*row) for row in rows], np.float32),
        "actions": np.arange(len(rows), dtype=np.int32),
        "rewards": np.arange(len(rows), dtype=np.float64) / 10,
        "terminals": np.array(TERMINATED, np.uint8),
        "timeouts": np.array(TRUNCATED, bool),
        "next_observations": np.array([seen(episode, step + 1) for episode, step in rows], np.float32),
    }


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def hdf5(path: Path, **arrays: Any) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name.replace(".", "/")] = array
    return path


def minari(folder: Path, change: Callable[[dict[str, Any], int], None] | None = None) -> Path:
    """The episodes as Minari keeps them; `change` is given the arrays of each and its number."""
    h5py = pytest.importorskip("h5py")
    (folder / "data").mkdir(parents=True)
    arrays = flat()
    with h5py.File(folder / "data" / "main_data.hdf5", "w") as file:
        for episode in reversed(range(len(STEPS))):  # whatever the order in which they were written
            rows = slice(sum(STEPS[:episode]), sum(STEPS[: episode + 1]))
            values: dict[str, Any] = {
                "observations": np.array([seen(episode, step) for step in range(STEPS[episode] + 1)]),
                "actions": arrays["actions"][rows],
                "rewards": arrays["rewards"][rows],
                "terminations": arrays["terminals"][rows].astype(bool),
                "truncations": arrays["timeouts"][rows],
            }
            if change is not None:
                change(values, episode)
            group = file.create_group(f"episode_{episode}")
            group.attrs["total_steps"] = STEPS[episode]
            for name, value in values.items():
                group[name] = value
    return folder


def assert_all_steps(data: Any) -> None:
    arrays = flat()
    assert data.batch_size == (9,)
    assert torch.equal(data["observation"], torch.from_numpy(arrays["observations"]))
    assert torch.equal(data["next", "observation"], torch.from_numpy(arrays["next_observations"]))
    assert data["action"].tolist() == list(range(9))
    assert data["action"].dtype == torch.int64
    assert torch.allclose(data["next", "reward"], torch.arange(9)[:, None] / 10)
    assert data["next", "terminated"].int().squeeze(-1).tolist() == TERMINATED
    assert data["next", "truncated"].int().squeeze(-1).tolist() == TRUNCATED
    assert torch.equal(data["next", "done"], data["next", "terminated"] | data["next", "truncated"])
    for key, (dtype, shape) in ENTRIES.items():
        assert (data[key].dtype, data[key].shape) == (dtype, (9, *shape))


@pytest.mark.parametrize("place", [".", "data", "data/main_data.hdf5"])
def test_episodes_of_minari(tmp_path: Path, place: str) -> None:
    """The observation after the last step of an episode is its own, whether it was terminated or cut off."""
    assert_all_steps(load_recorded(minari(tmp_path / "set") / place, ENTRIES))


def test_slices_of_minari_stay_within_episodes(tmp_path: Path) -> None:
    """Also where an episode ends with neither flag, since its recording ended, and another one follows."""

    def without_flags(values: dict[str, Any], episode: int) -> None:
        values["terminations"][:] = values["truncations"][:] = False

    path = minari(tmp_path / "set", without_flags)
    data = load_recorded(path, {**ENTRIES, ("collector", "traj_ids"): (torch.int64, ())})
    assert data["collector", "traj_ids"].tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert not data["next", "done"].any()
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(9), sampler=SliceSampler(slice_len=2), batch_size=200
    )
    buffer.extend(data)
    episodes = buffer.sample()["observation"][:, 0].reshape(-1, 2)
    assert torch.equal(episodes[:, 0], episodes[:, 1])
    assert set(episodes[:, 0].tolist()) == {0.0, 1.0, 2.0}


def test_arrays_in_hdf5(tmp_path: Path) -> None:
    assert_all_steps(load_recorded(hdf5(tmp_path / "data.hdf5", **flat()), ENTRIES))


def test_arrays_of_numpy(tmp_path: Path) -> None:
    assert_all_steps(load_recorded(npz(tmp_path / "data.npz", **flat()), ENTRIES))


@pytest.mark.parametrize("write", [npz, hdf5])
def test_next_observations_are_those_of_the_next_row(tmp_path: Path, write: Callable[..., Path]) -> None:
    """Those of a cut and of the last row are known to nobody, so that these are left out, and the steps before them cut; behind an end nothing is to come."""
    arrays = flat()
    del arrays["next_observations"]
    data = load_recorded(write(tmp_path / ("data.npz" if write is npz else "data.h5"), **arrays), ENTRIES)
    assert data["action"].tolist() == [0, 1, 2, 3, 5, 6, 7]
    assert data["next", "terminated"].squeeze(-1).tolist() == [False, False, True, *[False] * 4]
    assert data["next", "truncated"].squeeze(-1).nonzero().flatten().tolist() == [3, 6]
    assert torch.equal(data["next", "done"], data["next", "terminated"] | data["next", "truncated"])
    going = ~data["next", "terminated"].squeeze(-1)
    expected = data["observation"] + torch.tensor([0.0, 1.0])
    assert torch.equal(data["next", "observation"][going], expected[going])
    assert torch.equal(data["next", "observation"][~going], data["observation"][~going])


def test_rows_stay_where_nothing_asks_what_comes_next(tmp_path: Path) -> None:
    path = npz(tmp_path / "data.npz", observations=flat()["observations"], actions=flat()["actions"])
    wanted: Entries = {key: ENTRIES[key] for key in ("observation", "action")}
    assert load_recorded(path, wanted).batch_size == (9,)


def test_entries_that_are_called_otherwise(tmp_path: Path) -> None:
    arrays = flat()
    others = {
        "obs": arrays["observations"], "act": arrays["actions"], "rewards": arrays["rewards"],
        "ends": arrays["terminals"], "cuts": arrays["timeouts"],
    }  # fmt: skip
    keys: dict[NestedKey, NestedKey] = {
        "observation": "obs", "action": "act", ("next", "terminated"): "ends", ("next", "truncated"): "cuts",
    }  # fmt: skip
    data = load_recorded(npz(tmp_path / "data.npz", **others), ENTRIES, keys=keys)
    assert data["action"].tolist() == [0, 1, 2, 3, 5, 6, 7]


def test_parts_of_what_minari_observes(tmp_path: Path) -> None:
    """By their own names, or by those that `keys` says; what follows them is in the next row, too."""

    def parts(values: dict[str, Any], episode: int) -> None:
        whole = values.pop("observations")
        values["observations/observation"], values["observations/goal"] = whole, 2 * whole

    wanted = ENTRIES | {"goal": ENTRIES["observation"], ("next", "goal"): ENTRIES["observation"]}
    data = load_recorded(minari(tmp_path, parts), wanted)
    assert torch.equal(data["goal"], 2 * data["observation"])
    assert torch.equal(data["next", "goal"], 2 * data["next", "observation"])
    keys: dict[NestedKey, NestedKey] = {"observation": ("observations", "goal")}
    other = load_recorded(tmp_path, ENTRIES, keys=keys)
    assert torch.equal(other["next", "observation"], data["next", "goal"])


def test_what_is_missing_or_of_another_kind_is_named(tmp_path: Path) -> None:
    arrays = flat()
    arrays["actions"] = np.zeros((9, 2), np.float32)
    del arrays["rewards"]
    with pytest.raises(ValueError, match="does not hold") as told:
        load_recorded(npz(tmp_path / "data.npz", **arrays), ENTRIES)
    said = str(told.value)
    assert "'action' must be torch.int64 of shape [] behind the batch, got torch.float32 [2]" in said
    assert (
        "('next', 'reward') is missing: it is called rewards in such files, and `keys` says otherwise" in said
    )
    assert said.endswith("it holds actions, next_observations, observations, terminals, timeouts")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"timeouts": None, "next_observations": None},
            r"\('next', 'observation'\) is missing: it is what the next row observes, where `terminals` and `timeouts` say",
        ),
        (
            {"rewards": np.zeros(8)},
            "arrays of different numbers of rows: .*observations has 9, rewards has 8",
        ),
        ({"terminals": np.full(9, 2)}, "terminals must be 0 or 1, as truth values are, got 2"),
        ({"rewards": np.array(["a"] * 9)}, "rewards is of <U1, which is no number"),
        ({"rewards": np.array([{}] * 9)}, r"data.npz: rewards has no numbers that can be read"),
        ({"actions": np.full(9, 2**63, np.uint64)}, "'action' has numbers that int64 does not hold"),
        ({"rewards": np.array(0.0)}, "rewards is one number, not one for each step"),
        ({name: array[:0] for name, array in flat().items()}, "holds no transitions"),
        (
            {name: array[:1] for name, array in flat().items()} | {"next_observations": None},
            "holds no transitions whose next",
        ),
        (
            {"actions": np.zeros(9)},
            r"'action' must be torch.int64 of shape \[\] behind the batch, got torch.float64 \[\]",
        ),
        (
            {"terminals": None, "dones": np.zeros(9)},
            r"\('next', 'done'\) is missing.*it holds actions, dones",
        ),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    held = {name: array for name, array in (flat() | arrays).items() if array is not None}
    with pytest.raises(ValueError, match=message):
        load_recorded(npz(tmp_path / "data.npz", **held), ENTRIES)


def set_to(name: str, value: Any, episode: int = 1) -> Callable[[dict[str, Any], int], None]:
    def change(values: dict[str, Any], number: int) -> None:
        if number == episode:
            values.pop(name)
            if value is not None:
                values[name] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            set_to("observations", np.zeros((2, 2))),
            "observations of episode_1 has 2 rows, not 3, one more than steps",
        ),
        (set_to("actions", np.zeros(5, int)), "actions of episode_1 has 5 rows, not 2, one a step"),
        (
            set_to("observations", np.zeros((3, 4))),
            r"observations of episode_1 is float64 \[4\], of others float64 \[2\]",
        ),
        (set_to("actions", None), "episode_1 has no actions, which others have"),
        (set_to("rewards", 1.0), "rewards of episode_1 has 0 rows, not 2, one a step"),
    ],
)
def test_episodes_that_do_not_fit(
    tmp_path: Path, change: Callable[[dict[str, Any], int], None], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_recorded(minari(tmp_path, change), ENTRIES)


def test_a_file_that_holds_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'observation' is missing: it is called observations in such files"):
        load_recorded(hdf5(tmp_path / "data.hdf5"), ENTRIES)


def test_more_than_there_is_space_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds 9 transitions, and there is space for 8"):
        load_recorded(npz(tmp_path / "data.npz", **flat()), ENTRIES, at_most=8)


@pytest.mark.parametrize("name", ["data.hdf5", "data.npz"])
def test_files_that_are_broken(tmp_path: Path, name: str) -> None:
    if name.endswith("hdf5"):
        pytest.importorskip("h5py")
    (tmp_path / name).write_bytes(b"not this")
    with pytest.raises(ValueError, match=rf"{name} is no"):
        load_recorded(tmp_path / name, ENTRIES)


def test_arrays_of_numpy_that_are_broken(tmp_path: Path) -> None:
    path = npz(tmp_path / "data.npz", **flat())
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.find(b"observations.npy") + 200] ^= 0xFF
    np.save(tmp_path / "one.npy", np.zeros(3))
    for broken, message in (
        (b"", "is no file of `numpy.savez`"),
        (whole[: len(whole) // 2], "is no file of `numpy.savez`"),
        ((tmp_path / "one.npy").read_bytes(), "is no file of `numpy.savez`: it holds one array"),
        (bytes(flipped), "data.npz: observations has no numbers that can be read"),
    ):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=message):
            load_recorded(path, ENTRIES)


def test_links_in_hdf5(tmp_path: Path) -> None:
    """Those that lead nowhere, or back, hold no arrays."""
    h5py = pytest.importorskip("h5py")
    path = hdf5(tmp_path / "data.hdf5", **flat())
    with h5py.File(path, "a") as file:
        file["nowhere"] = h5py.SoftLink("/missing")
        group = file.create_group("group")
        group["back"] = group
    assert_all_steps(load_recorded(path, ENTRIES))
    with h5py.File(path, "a") as file:
        file["episode_0"] = h5py.SoftLink("/missing")
    with pytest.raises(ValueError, match="episode_0 must be a group of arrays, got None"):
        load_recorded(path, ENTRIES)


def test_places_where_nothing_is(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path / "nothing.hdf5", tmp_path):
        with pytest.raises(FileNotFoundError, match=r"name an \.hdf5 or \.npz file, or a Minari data set"):
            load_recorded(path, ENTRIES)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "metadata.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="of Minari's formats HDF5 is read"):
        load_recorded(tmp_path, ENTRIES)


def test_what_is_missing_to_read_hdf5_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.hdf5").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"reading data.hdf5 needs h5py: pip install 'specgen-rl\[hdf5\]'"):
        load_recorded(tmp_path / "data.hdf5", ENTRIES)


def test_files_are_closed(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = hdf5(tmp_path / "data.hdf5", **flat())
    others: Entries = {"nothing": (torch.float32, ())}
    for wanted in (ENTRIES, others):
        with contextlib.suppress(ValueError):
            load_recorded(path, wanted)
        with h5py.File(path, "a"):  # which is refused while somebody reads
            pass


def test_arrays_that_nobody_asks_for_are_not_read(tmp_path: Path) -> None:
    """Those of objects can't be."""
    path = npz(tmp_path / "data.npz", **flat(), notes=np.array([{}] * 9))
    assert_all_steps(load_recorded(path, ENTRIES))
