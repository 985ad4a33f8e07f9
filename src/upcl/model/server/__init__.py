"""A small HTTP service for one model: a JSON API and a page to drop photos on (`upcl serve`)."""
