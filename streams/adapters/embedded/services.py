"""Broker and database together, below one data folder: what one machine needs to run the whole pipeline."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.embedded.folder import FolderLock, make_folder


class EmbeddedServices:
    """`DIR/kafka` and `DIR/postgres`, kept between runs. The folder as a whole has one owner at a time."""

    def __init__(
        self,
        data_dir: Path,
        *,
        broker_port: int | None = None,
        controller_port: int | None = None,
        database_port: int | None = None,
        broker_settings: Mapping[str, str] | None = None,
        database_settings: Mapping[str, str] | None = None,
    ) -> None:
        """Nothing is touched before `start`."""
        self.data_dir = Path(data_dir).absolute()
        self.broker = EmbeddedBroker(self.data_dir / "kafka", broker_port, controller_port, settings=broker_settings)
        self.database = EmbeddedDatabase(self.data_dir / "postgres", database_port, settings=database_settings)
        self._lock = FolderLock(self.data_dir, "townclock's broker and database")

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def dsn(self) -> str:
        return self.database.dsn

    def start(self) -> EmbeddedServices:
        """Both, side by side; neither is left running if one can't be had. Raises what they raise."""
        make_folder(self.data_dir)
        self._lock.acquire(patience_s=1.0)
        errors: list[BaseException] = []

        def start_database() -> None:
            try:
                self.database.start()
            except BaseException as error:  # noqa: BLE001 -- handed to the caller below
                errors.append(error)

        beside = threading.Thread(target=start_database, name="embedded-database")
        beside.start()
        try:
            self.broker.start()
        except BaseException:
            beside.join()
            self.stop()
            raise
        beside.join()
        if errors:
            self.stop()
            raise errors[0]
        return self

    def stop(self) -> None:
        """Both, in good order."""
        self.database.stop()
        self.broker.stop()
        self._lock.release()

    def failure(self) -> str | None:
        """What to tell if one of them is not running any more, else None."""
        for name, service in (("Apache Kafka", self.broker), ("PostgreSQL", self.database)):
            if not service.is_running:
                return f"{name} has ended; its log is {service.log_path} and ends:\n{service.log_tail()}"
        return None

    def destroy(self) -> None:
        """Stop both and remove the database's data, which may lie outside of the folder; the rest is the caller's."""
        self.stop()
        self.database.destroy()

    def __enter__(self) -> EmbeddedServices:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
