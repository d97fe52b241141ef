"""How Alembic runs the migrations here: on the connection that `Database.open` hands it, in its transaction."""

from __future__ import annotations

from alembic import context

from kernel_gateway.storage.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
