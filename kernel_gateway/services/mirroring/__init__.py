"""Between the services and the store: mirrors of workspaces, what waits for the store, what workspaces hold."""
