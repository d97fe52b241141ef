"""A live directory that others change meanwhile: walked, watched, opened safely."""
