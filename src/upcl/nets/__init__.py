"""Backbones, growing heads, the network that joins them, and the frozen teacher."""

from .backbones import BACKBONES, Backbone, Features, make_backbone
from .heads import CorrectedHead, CosineHead, Head, LinearHead, MeansHead, PrototypeHead
from .network import Network, frozen
from .scroll import ScrollBackbone

__all__ = [
    "BACKBONES",
    "Backbone",
    "CorrectedHead",
    "CosineHead",
    "Features",
    "Head",
    "LinearHead",
    "MeansHead",
    "Network",
    "PrototypeHead",
    "ScrollBackbone",
    "frozen",
    "make_backbone",
]
