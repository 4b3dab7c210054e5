"""Records of `tzdata` into a TzBook, and which bundle an installation's ticks are joined with."""

from __future__ import annotations

from confluent_kafka import KafkaException

from streams.adapters.codec import Undecodable, decode, unpack_zones
from streams.adapters.kafka.client import admin, reason
from streams.adapters.kafka.first_records import read_all
from streams.domain.bundle import ZoneBundle
from streams.domain.errors import ServiceUnreachable
from streams.domain.tz_asof import TzBook
from streams.domain.tzdata import TzActivation, TzBundle
from streams.pipeline.names import Names


def take_tzdata(book: TzBook, offset: int, data: bytes | None) -> None:
    """The next record. One that can't be read is noted: no tick whose watermark passes it is evaluated."""
    try:
        value = decode(data)
        if isinstance(value, TzBundle):
            book.add_bundle(_bundle(value))
        elif isinstance(value, TzActivation):
            book.add_activation(offset, value.version, value.since)
        else:
            raise Undecodable(f"a {type(value).__name__} where a tz bundle or activation was expected")
    except Undecodable as problem:
        book.add_invalid(offset, str(problem))
    book.position = offset + 1


def bundle_in_force(names: Names, bootstrap_servers: str) -> ZoneBundle:
    """The bundle that counts for ticks from now on. Raises BrokenPromise if there is none, or ServiceUnreachable."""
    book = TzBook()
    try:
        for message in read_all(admin(bootstrap_servers), names.tzdata, bootstrap_servers):
            value = message.value()
            take_tzdata(book, int(message.offset() or 0), value if isinstance(value, bytes) else None)
    except KafkaException as error:
        raise ServiceUnreachable(f"{names.tzdata} can't be read ({reason(error)})") from None
    return book.in_force(book.position)


def _bundle(record: TzBundle) -> ZoneBundle:
    bundle = ZoneBundle(record.version, unpack_zones(record.block))
    if bundle.sha256 != record.sha256:
        raise Undecodable(f"bundle {record.version} has sha256 {bundle.sha256}, not {record.sha256} as it says")
    return bundle
