"""Image files: reading, decoding, scanning, unpacking and downloading."""
