"""Backbones, growing heads, the network that joins them, and the frozen teacher."""

from .backbones import BACKBONES, Backbone, make_backbone
from .heads import CosineHead, Head, LinearHead, PrototypeHead
from .network import Network, frozen

__all__ = [
    "BACKBONES",
    "Backbone",
    "CosineHead",
    "Head",
    "LinearHead",
    "Network",
    "PrototypeHead",
    "frozen",
    "make_backbone",
]
