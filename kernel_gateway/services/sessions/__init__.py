"""Live sessions: their life, their sandbox, the worker that runs their executions, who listens."""
