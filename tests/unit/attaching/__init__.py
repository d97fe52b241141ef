"""The person's side of an attachment, as far as it is pure."""
