"""`make kubernetes-trial`: a cluster from nothing, a service on it, sessions in pods, a node lost, and nothing left."""
