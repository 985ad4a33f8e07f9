"""Backbones, growing heads, the network that joins them, and the frozen teacher."""

from .backbones import BACKBONES, Backbone, FeatureExtractor, make_backbone
from .heads import CorrectedHead, CosineHead, Head, LinearHead, MeansHead, PrototypeHead
from .network import Execution, Network, Precision, frozen_copy
from .slimmable import SlimmableBackbone

__all__ = [
    "BACKBONES",
    "Backbone",
    "CorrectedHead",
    "CosineHead",
    "Execution",
    "FeatureExtractor",
    "Head",
    "LinearHead",
    "MeansHead",
    "Network",
    "Precision",
    "PrototypeHead",
    "SlimmableBackbone",
    "frozen_copy",
    "make_backbone",
]
