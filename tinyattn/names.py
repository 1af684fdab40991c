"""Chapter 6: what a wrong name was meant to be.

A name that does not exist is mostly one that is misspelt, or the name that another library has for
the same thing. An error should end with the one to type.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

ELSEWHERE = {
    "allowed": "attn_mask mask",
    "attention": "attn",
    "axes": "dims",
    "axis": "dim",
    "beta1": "betas adam_beta1",
    "beta2": "adam_beta2",
    "batch": "batch_size bs minibatch",
    "causal": "is_causal",
    "clip": "grad_clip gradient_clip max_norm max_grad_norm",
    "context": "block_size context_length n_ctx max_len max_length seq_len sequence_length",
    "cuda": "gpu nvidia",
    "cpu": "host",
    "decay": "decays",
    "dropout": "dropout_rate p_drop dropout_p",
    "eps": "adam_eps epsilon adam_epsilon",
    "epochs": "n_epochs num_epochs max_epochs",
    "floor": "min_lr lr_min",
    "from": "checkpoint ckpt load model run",
    "gelu": "activation act",
    "heads": "n_head n_heads num_heads nhead",
    "high": "max",
    "ignore": "ignore_index",
    "indices": "index",
    "keepdims": "keepdim",
    "layers": "n_layer n_layers num_layers depth blocks",
    "learning_rate": "lr max_lr step_size",
    "low": "min",
    "multihead": "dense full mha self softmax standard vanilla",
    "optimizer": "optim optimiser opt",
    "positions": "pos_emb position_embedding positional_encoding",
    "products": "dtype precision",
    "rate": "p",
    "schedule": "scheduler lr_schedule lr_scheduler",
    "steps": "n_steps num_steps max_steps iters max_iters iterations",
    "validation": "val val_split validation_split",
    "warmup": "warmup_steps warmup_tokens warmup_iters",
    "weight_decay": "wd l2",
    "width": "dim d_model n_embd embed_dim embedding_dim hidden_size hidden_dim channels",
}
"""Names that the field has for the same thing, for each of ours."""


def ours(name: str, known: Collection[str]) -> str:
    """The known name that we use where other libraries say `name`; `name` itself if there is
    none."""
    typed = name.lower()
    return next((our for our in ELSEWHERE if our in known and typed in ELSEWHERE[our].split()),
                name)  # fmt: skip


def nearest(name: str, known: Collection[str], *, otherwise: bool = True) -> str:
    """A suggestion to put behind "there is no such name".

    Args: otherwise: whether to list the known names where none of them is near.

        >>> nearest("lr", ["floor", "learning_rate"])
        "; did you mean 'learning_rate'?"
        >>> nearest("zzz", ["floor", "learning_rate"])
        '; there are floor, learning_rate'
    """
    typed = name.lower()
    plain = {other.lower(): other for other in known}
    close = [other for other in [ours(typed, plain)] if other in plain]
    close += [plain[near] for near in difflib.get_close_matches(typed, plain, n=1)]
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(sorted(known))}" if otherwise else ""
