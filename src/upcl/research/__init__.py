"""Experiments: protocol, runs, records, grids, the paper's experiments, reports and benchmarks."""
