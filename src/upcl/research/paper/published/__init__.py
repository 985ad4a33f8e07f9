"""The paper's tables as data files, and an audit that checks them against each other."""

from .audit import Finding, TableName, audit
from .tables import PublishedResult, ablation_table, lambda_table, main_table, memory_tables

__all__ = [
    "Finding",
    "PublishedResult",
    "TableName",
    "ablation_table",
    "audit",
    "lambda_table",
    "main_table",
    "memory_tables",
]
