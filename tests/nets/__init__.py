"""Tests of `upcl.nets`."""
