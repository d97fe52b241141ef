"""Images on disk: what is in them. How they get there is `kernels.oci`'s."""
