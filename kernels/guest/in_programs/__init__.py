"""What runs in programs of the user's, by their own Python: nothing here is imported by the guest."""
