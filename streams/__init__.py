"""Townclock: recurring reminders and dated obligations, at each customer's own wall-clock time, once.

`domain` is pure, `pipeline` holds the steps, `adapters` the outside world, `entrypoints` the processes and the CLI.
"""

__version__ = "0.1.0"
