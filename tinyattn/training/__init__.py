"""Training, from chapter 4 on. It needs only the loss function and the parameters of a model."""

from tinyattn.training.optimizers import SGD, AdamW, Optimizer
from tinyattn.training.step import Step, StepResult
from tinyattn.training.loop import Data, train
from tinyattn.training.schedule import Schedule
from tinyattn.training.ranks import ALONE, MissingMPI, Ranks, all_ranks
from tinyattn.training.checkpoint import Checkpoint, CheckpointError
from tinyattn.training.metrics import Log, read_metrics
from tinyattn.training.keep import Keeper, TrainingFailed
from tinyattn.training.signals import Interrupted
from tinyattn.training.muon import Muon, orthogonal
from tinyattn.training.optimizer_table import OPTIMIZERS, make_optimizers
from tinyattn.training.settings import SettingError, TrainSettings
from tinyattn.training.fit import Fit

__all__ = [
    "ALONE", "AdamW", "Checkpoint", "CheckpointError", "Data", "Fit", "Interrupted", "Keeper",
    "Log", "MissingMPI", "Muon", "OPTIMIZERS", "Optimizer", "Ranks", "SGD", "Schedule",
    "SettingError", "Step", "StepResult", "TrainSettings", "TrainingFailed", "all_ranks",
    "make_optimizers", "orthogonal", "read_metrics", "train",
]  # fmt: skip
