"""Hypothesis times each example; on a busy machine that says nothing about the code."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
