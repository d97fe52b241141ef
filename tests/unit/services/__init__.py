"""Pure parts of the services: settings, errors, limits, logs, pages."""
