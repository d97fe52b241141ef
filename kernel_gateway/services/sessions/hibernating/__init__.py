"""Sessions that give up their sandboxes and get others: how they leave, how they wake, and how many there may be."""
