"""Training and evaluation of a method: the one loop, checkpoints, all readings of a model."""
