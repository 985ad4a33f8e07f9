"""Teaching a model on a page (`upcl studio`): photos on disk, what they show, and what the model makes of them."""
