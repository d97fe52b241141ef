"""The service: who may do what, what is remembered, and every protocol at the door."""
