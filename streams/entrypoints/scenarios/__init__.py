"""Scenarios: the pipeline run end to end over minutes of its own choosing, every process real."""
