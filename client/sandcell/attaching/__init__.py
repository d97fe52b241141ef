"""A person's own side of an attachment: what `sandcell attach` writes and runs on their machine. Not the service's."""
