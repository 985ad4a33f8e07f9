"""Backbones, growing heads, the network that joins them, and the frozen teacher."""

from .backbones import BACKBONES, Backbone, Features, make_backbone
from .heads import CorrectedHead, CosineHead, Head, LinearHead, MeansHead, PrototypeHead
from .network import Execution, Network, Precision, frozen
from .slimmable import ScrollBackbone

__all__ = [
    "BACKBONES",
    "Backbone",
    "CorrectedHead",
    "CosineHead",
    "Execution",
    "Features",
    "Head",
    "LinearHead",
    "MeansHead",
    "Network",
    "Precision",
    "PrototypeHead",
    "ScrollBackbone",
    "frozen",
    "make_backbone",
]
