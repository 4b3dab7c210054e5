"""`python -m streams` is `townclock`."""

from streams.entrypoints.cli import main

main()
