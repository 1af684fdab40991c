"""Chapter 6: the kinds of attention, each under the name that users write.

A new kind is a file of its own and a line here.
"""

from tinyattn.attention.bigbird import BigBird
from tinyattn.attention.bilinear import Bilinear
from tinyattn.attention.latent import Latent
from tinyattn.attention.linformer import Linformer, LinformerCausal
from tinyattn.attention.multihead import MultiHead
from tinyattn.attention.synthesizer import RandomSynthesizer, Synthesizer
from tinyattn.attention.table import ATTENTION

ATTENTION.update({
    "multihead": MultiHead,
    "bilinear": Bilinear,
    "synthesizer": Synthesizer,
    "random-synthesizer": RandomSynthesizer,
    "bigbird": BigBird,
    "linformer": Linformer,
    "linformer-causal": LinformerCausal,
    "latent": Latent,
})  # fmt: skip
