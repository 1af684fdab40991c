"""Chapter 8: training, which knows nothing of GPT, only a loss function."""

from tinyattn.training.schedule import Schedule
from tinyattn.training.parameters import FlatParameters
from tinyattn.training.optimizers import AdamW, Muon, make_optimizers
from tinyattn.training.settings import SettingError, TrainSettings
from tinyattn.training.step import Step, StepResult
from tinyattn.training.checkpoint import Checkpoint, CheckpointError
from tinyattn.training.loop import Fit, Interrupted, TrainingFailed

__all__ = [
    "AdamW", "Checkpoint", "CheckpointError", "Fit", "FlatParameters", "Interrupted", "Muon",
    "Schedule", "SettingError", "Step", "StepResult", "TrainSettings", "TrainingFailed",
    "make_optimizers",
]  # fmt: skip
