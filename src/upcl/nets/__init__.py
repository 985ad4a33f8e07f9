"""Backbones, growing classifier heads, the network that combines them, and frozen copies as teachers."""

from .backbones import Backbone
from .extractors import FeatureExtractor
from .heads import CorrectedHead, CosineHead, Head, LinearHead, MeansHead
from .network import Execution, Network, Precision, frozen_copy
from .prototype_head import PrototypeHead
from .registry import BACKBONES, make_backbone, num_features
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
    "num_features",
]
