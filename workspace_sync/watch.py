"""What the kernel tells of changes in a live directory, so that nothing is looked at that did not change."""
