"""Training and evaluation of a method: the one loop, checkpoints, both readings of a model."""
