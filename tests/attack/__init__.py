"""Attacks on the program: kills, faults of the machine, hostile files, images, requests and command lines.

    make attack                              # an hour; prints a table of what was tried and what happened
    python -m tests.attack --trials 5        # five trials of every kind
    python -m tests.attack --only kill-train --seed 3 --trial 17   # repeat one trial

Every trial runs in a forked process, with its own folder and random numbers that depend on the seed, the kind and the
number of the trial alone.
"""
