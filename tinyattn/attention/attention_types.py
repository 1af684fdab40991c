"""Chapter 6: the attention types, each with the name that users write.

A new attention type needs its own file and a line here.
"""

from tinyattn.attention.bigbird import BigBird
from tinyattn.attention.bilinear import Bilinear
from tinyattn.attention.latent import Latent
from tinyattn.attention.linformer import Linformer, LinformerCausal
from tinyattn.attention.lookup import ATTENTION
from tinyattn.attention.multihead import MultiHead
from tinyattn.attention.synthesizer import RandomSynthesizer, Synthesizer

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
