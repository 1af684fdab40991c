"""Chapter 4: modules, which own the numbers that are learned."""

from tinyattn.nn.module import Module, Parameter, Role
from tinyattn.nn.init import A5, normal, ones, uniform, xavier_uniform, zeros
from tinyattn.nn.linear import Dropout, Linear
from tinyattn.nn.layers import Embedding, FeedForward, LayerNorm, LearnedPositions
from tinyattn.nn.rotary import Rotary

__all__ = [
    "A5", "Dropout", "Embedding", "FeedForward", "LayerNorm", "LearnedPositions", "Linear",
    "Module", "Parameter", "Role", "Rotary", "normal", "ones", "uniform", "xavier_uniform", "zeros",
]  # fmt: skip
