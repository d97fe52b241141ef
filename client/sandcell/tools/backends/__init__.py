"""Where the tools find a service: what they need of one (`protocol`), and a service by its client (`over_rest`)."""
