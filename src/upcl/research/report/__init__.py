"""What runs look like: in the terminal, as tables, as figures, on a page."""
