"""Chapter 8: training. Of a model it needs a loss function, and the names of its parameters."""

from tinyattn.training.schedule import Schedule
from tinyattn.training.parameters import FlatParameters
from tinyattn.training.orthogonal import orthogonal
from tinyattn.training.optimizers import AdamW, Muon, make_optimizers
from tinyattn.training.settings import SettingError, TrainSettings
from tinyattn.training.ranks import MissingMPI, Ranks, all_ranks
from tinyattn.training.step import BatchTooLarge, Step, StepResult
from tinyattn.training.checkpoint import Checkpoint, CheckpointError
from tinyattn.training.metrics import Log, read_metrics
from tinyattn.training.signals import Interrupted
from tinyattn.training.loop import Fit, TrainingFailed

__all__ = [
    "AdamW", "BatchTooLarge", "Checkpoint", "CheckpointError", "Fit", "FlatParameters",
    "Interrupted", "Log", "MissingMPI", "Muon", "Ranks", "Schedule",
    "SettingError", "Step", "StepResult", "TrainSettings", "TrainingFailed", "all_ranks",
    "make_optimizers", "orthogonal", "read_metrics",
]  # fmt: skip
