"""A small HTTP service around one model, and its page."""
