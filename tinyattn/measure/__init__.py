"""Engine room, measuring: time and memory of training steps and of attention types.

A reader may skip this folder. Without it, the commands `profile` and `compare` do not exist.
"""

from tinyattn.measure.memory import traced_memory
from tinyattn.measure.counting import multiply_adds
from tinyattn.measure.observer import Observer
from tinyattn.measure.profile import Profile, profile_step
from tinyattn.measure import profile_report
from tinyattn.measure.as_block import DownAndUp, new_block
from tinyattn.measure.comparison import Comparison, compare
from tinyattn.measure import comparison_report

__all__ = [
    "Comparison", "DownAndUp", "Observer", "Profile", "compare", "comparison_report",
    "multiply_adds", "new_block", "profile_report", "profile_step", "traced_memory",
]  # fmt: skip
