"""Chapter 6: suggestions for a wrong name.

A wrong name is often misspelt, or it is the name that another library has for the same thing. So an
error message should end with the right name.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

ELSEWHERE = {
    "allowed": "attn_mask mask attention_mask src_mask",
    "attention": "attn attention_type mechanism",
    "axes": "dims",
    "axis": "dim",
    "beta1": "betas adam_beta1",
    "beta2": "adam_beta2",
    "batch": "batch_size bs minibatch train_batch_size",
    "bias": "beta",
    "causal": "is_causal",
    "clip": "grad_clip gradient_clip clip_grad_norm max_norm max_grad_norm",
    "context": "block_size context_length n_ctx n_positions max_len max_length max_seq_len seq_len "
    "sequence_length max_position_embeddings",
    "cuda": "gpu nvidia",
    "cpu": "host",
    "decay": "decays",
    "dropout": "dropout_rate p_drop dropout_p attn_dropout attn_pdrop resid_pdrop",
    "dropout_rng": "training generator noise",
    "eps": "adam_eps epsilon adam_epsilon",
    "epochs": "n_epochs num_epochs max_epochs num_train_epochs",
    "equation": "subscripts",
    "exact": "approximate",
    "floor": "min_lr lr_min eta_min",
    "from": "checkpoint ckpt load model run",
    "gain": "weight gamma",
    "gelu": "activation act activation_function hidden_act",
    "heads": "n_head n_heads num_heads nhead num_attention_heads",
    "high": "max a_max",
    "ids": "input_ids",
    "ignore": "ignore_index",
    "indices": "index",
    "keepdims": "keepdim",
    "k": "key keys",
    "layers": "n_layer n_layers num_layers num_hidden_layers depth blocks",
    "learning_rate": "lr max_lr step_size",
    "low": "min a_min",
    "matmul_precision": "dtype precision products",
    "multihead": "dense full mha self softmax standard vanilla",
    "optimizer": "optim optimiser opt",
    "offset": "diagonal",
    "positions": "pos_emb position_embedding position_embedding_type positional_encoding",
    "q": "query queries",
    "rate": "p",
    "schedule": "scheduler lr_schedule lr_scheduler lr_scheduler_type",
    "shape": "size sizes newshape",
    "steps": "n_steps num_steps max_steps iters max_iters iterations",
    "targets": "target labels",
    "v": "value",
    "validation": "val val_split validation_split",
    "values": "src",
    "warmup": "warmup_steps warmup_tokens warmup_iters num_warmup_steps",
    "weight_decay": "wd l2",
    "width": "dim d_model n_embd embed_dim embedding_dim hidden_size hidden_dim channels",
    "widths": "pad pad_width",
    "x": "input a",
}
"""For each of our names, the names that other libraries have for the same thing."""


def ours(name: str, known: Collection[str]) -> str:
    """The known name for what other libraries call `name`; `name` itself if there is none."""
    typed = name.lower()
    return next((our for our in ELSEWHERE if our in known and typed in ELSEWHERE[our].split()),
                name)  # fmt: skip


def nearest(name: str, known: Collection[str], *, otherwise: bool = True) -> str:
    """A suggestion to append to an error message about an unknown name.

    Args: otherwise: whether to list all known names if none of them is similar.

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
