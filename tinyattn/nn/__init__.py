"""Modules, which hold the parameters that are learned. The first ones belong to chapter 2."""

from tinyattn.nn.module import Module, Parameter, Role
from tinyattn.nn.linear_layer import A5, Dropout, Linear, normal
from tinyattn.nn.hooks import NO_HOOKS, Hook, Hooks, NoActivation, weight_hooks
from tinyattn.nn.layers import Embedding, FeedForward, LayerNorm, LearnedPositions
from tinyattn.nn.init import ones, uniform, xavier_uniform, zeros
from tinyattn.nn.rotary_positions import Rotary

__all__ = [
    "A5", "Dropout", "Embedding", "FeedForward", "Hook", "Hooks", "LayerNorm", "LearnedPositions",
    "Linear", "Module", "NO_HOOKS", "NoActivation", "Parameter", "Role", "Rotary", "normal", "ones",
    "uniform", "weight_hooks", "xavier_uniform", "zeros",
]  # fmt: skip
