"""How a step that waits for a service is asked to leave off."""


class Interrupted(Exception):
    """The process is stopping, or work is being taken from it: leave things as they are."""
