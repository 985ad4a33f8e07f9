"""The paper's experiments, what it printed, and an audit of its tables."""
