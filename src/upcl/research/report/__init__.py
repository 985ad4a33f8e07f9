"""Reports on runs: a self-contained page, tables and figures."""
