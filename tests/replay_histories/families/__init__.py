"""What the histories are made from: a module for each group of families, each with a tuple `FAMILIES`."""
