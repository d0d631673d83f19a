"""What training loops stand on: runs in folders, minibatches, schedules, evaluation, curves."""

from specgen_runtime.random_state import load_generator
from specgen_runtime.training.backward import Backward, NotCompiledError, check_compiler
from specgen_runtime.training.checkpoints import load_parts
from specgen_runtime.training.command_line import command_line
from specgen_runtime.training.curves import draw_curve, read_curve
from specgen_runtime.training.devices import NoSuchDeviceError, available_device, device_param
from specgen_runtime.training.evaluation import evaluate
from specgen_runtime.training.folder_lock import FolderInUseError
from specgen_runtime.training.minibatches import (
    column_minibatches,
    equal_parts,
    joined,
    mean_losses,
    minibatches,
)
from specgen_runtime.training.next_actions import write_next_actions
from specgen_runtime.training.optimizers import Adam, AdamW, clip_grad_norm_
from specgen_runtime.training.parts import PipelineParts
from specgen_runtime.training.reward_bonus import RewardBonus
from specgen_runtime.training.run import Run, Stateful
from specgen_runtime.training.run_config import ConfigChangedError
from specgen_runtime.training.run_log import read_log
from specgen_runtime.training.schedules import cosine, exponential, linear, piecewise
from specgen_runtime.training.streams import stream
from specgen_runtime.training.videos import record_video

__all__ = [
    "Adam",
    "AdamW",
    "Backward",
    "ConfigChangedError",
    "FolderInUseError",
    "NoSuchDeviceError",
    "NotCompiledError",
    "PipelineParts",
    "RewardBonus",
    "Run",
    "Stateful",
    "available_device",
    "check_compiler",
    "clip_grad_norm_",
    "column_minibatches",
    "command_line",
    "cosine",
    "device_param",
    "draw_curve",
    "equal_parts",
    "evaluate",
    "exponential",
    "joined",
    "linear",
    "load_generator",
    "load_parts",
    "mean_losses",
    "minibatches",
    "piecewise",
    "read_curve",
    "read_log",
    "record_video",
    "stream",
    "write_next_actions",
]
