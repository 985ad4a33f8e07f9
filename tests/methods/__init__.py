"""Tests of `upcl.methods`."""
