"""Tests of `upcl.core`."""
