"""The paper's numbers as data files, and what they say against each other."""

from .audit import Finding, audit
from .tables import PublishedResult, ablation, lambda_1, main, memory

__all__ = ["Finding", "PublishedResult", "ablation", "audit", "lambda_1", "main", "memory"]
