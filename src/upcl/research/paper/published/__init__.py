"""The paper's numbers as data files, and what they say against each other."""

from .audit import Finding, audit
from .tables import Cell, ablation, lambda_1, main, memory

__all__ = ["Cell", "Finding", "ablation", "audit", "lambda_1", "main", "memory"]
