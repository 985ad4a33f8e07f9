"""Tests of the growing model."""
