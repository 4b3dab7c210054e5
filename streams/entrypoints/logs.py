"""Logs of the long-running processes: one line an event on stderr, JSON unless a person is looking."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(process: str, *, level: int = logging.INFO) -> None:
    """Every line names its process. Libraries that log through `logging` are let through from WARNING."""

    def named(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Not by a context variable: the threads of a process don't inherit those."""
        del logger, method
        return {"process": process, **event}

    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            named,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
