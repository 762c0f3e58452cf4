"""The events of an auction site, after the Nexmark benchmark: of 50 events 1 is a person, 3 are auctions, 46 bids.

Everything about event n follows from n alone: a hash of (n, field) stands for the random numbers. So any
part of the history can be made in any process, in any order, and a second run sees the same events.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]

EPOCH = 50  # events; in each the same positions are persons, auctions and bids
AUCTIONS = 3  # of an epoch, behind its one person
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT = 100  # every hundredth person and auction is popular until the next one
ACTIVE_PEOPLE = 1000
AUCTIONS_IN_FLIGHT = 100
AHEAD = 10  # ids that are named before they exist
EXPIRY_EVENTS = 1666
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "Boise", "Portland", "Seattle", "Cheyenne")
FIRST_NAMES = ("Ada", "Björn", "Chen", "Dilan", "Elif", "Femi", "Goran", "Hanna", "Ines", "Jonas", "Kaya")
LAST_NAMES = ("Abara", "Berg", "Costa", "Demir", "Eriksen", "Fischer", "Gupta", "Haddad", "Ito")
ITEMS = ("a globe", "a tin robot", "two oars", "a harmonica", "an atlas", "a brass lamp", "a clock", "a kite")


@dataclass(frozen=True)
class AuctionSite:
    """An auction site on which `rate` events happen each second from `base` (microseconds) on."""

    base: int
    rate: float

    def time_of(self, number: int) -> int:
        return self.base + int(number * 1e6 / self.rate)

    def first_at(self, time: int) -> int:
        """The number of the first event that is not before a time."""
        number = max(0, int((time - self.base) * self.rate / 1e6) - 1)
        while self.time_of(number) < time:
            number += 1
        return number

    def tables(self, begin: int, end: int) -> dict[str, pa.Table]:
        """The events begin … end - 1, one table for each stream."""
        numbers = np.arange(begin, end, dtype=np.int64)
        place = numbers % EPOCH
        return {
            "persons": self._persons(numbers[place == 0]),
            "auctions": self._auctions(numbers[(place > 0) & (place <= AUCTIONS)]),
            "bids": self._bids(numbers[place > AUCTIONS]),
        }

    def _persons(self, number: Numbers) -> pa.Table:
        state = _below(number, "state", len(STATES))
        first = _choice(number, "first name", FIRST_NAMES)
        last = _choice(number, "last name", LAST_NAMES)
        return pa.table(
            {
                "id": FIRST_ID + _last_person(number),
                "name": pc.binary_join_element_wise(first, last, " "),
                "city": pa.array(CITIES).take(pa.array(state)),
                "state": pa.array(STATES).take(pa.array(state)),
                "at": self._times(number),
                "extra": _padding(number, 140),
            }
        )

    def _auctions(self, number: Numbers) -> pa.Table:
        opening = _price(number, "opening bid")
        lifetime = 1 + (_uniform(number, "expires") * 2 * EXPIRY_EVENTS * 1e6 / self.rate).astype(np.int64)
        return pa.table(
            {
                "id": FIRST_ID + _last_auction(number),
                "item": _choice(number, "item", ITEMS),
                "category": FIRST_CATEGORY + _below(number, "category", CATEGORIES),
                "seller": _person(number, "seller", 0),
                "opening_bid": opening,
                "reserve": opening + _price(number, "reserve"),
                "at": self._times(number),
                "expires": self._times(number, lifetime),
                "extra": _padding(number, 430),
            }
        )

    def _bids(self, number: Numbers) -> pa.Table:
        newest = _last_auction(number)
        popular = newest // HOT * HOT
        oldest = np.maximum(newest - AUCTIONS_IN_FLIGHT, 0)
        other = oldest + _below(number, "auction", newest - oldest + 1 + AHEAD)
        return pa.table(
            {
                "auction": FIRST_ID + np.where(_uniform(number, "popular auction") < 1 / 2, popular, other),
                "bidder": _person(number, "bidder", 1),
                "price": _price(number, "price"),
                "at": self._times(number),
                "extra": _padding(number, 68),
            }
        )

    def _times(self, number: Numbers, later: Numbers | int = 0) -> pa.Array:
        return pa.array(self.base + (number * 1e6 / self.rate).astype(np.int64) + later, pa.timestamp("us", tz="UTC"))


def _last_person(number: Numbers) -> Numbers:
    return number // EPOCH


def _last_auction(number: Numbers) -> Numbers:
    place = number % EPOCH
    # Before the first auction there is none to name; the first one then has to do.
    newest = number // EPOCH * AUCTIONS + np.clip(place, 0, AUCTIONS) - 1
    return np.maximum(newest, 0)


def _person(number: Numbers, role: str, popular_offset: int) -> Numbers:
    """Who sells or bids: with 3/4 the popular one, else any of the active people or one who is about to come."""
    newest = _last_person(number)
    popular = newest // HOT * HOT + popular_offset
    active = np.minimum(newest, ACTIVE_PEOPLE)
    other = newest - active + _below(number, role, active + 1 + AHEAD)
    return FIRST_ID + np.where(_uniform(number, f"popular {role}") < 3 / 4, popular, other)


def _price(number: Numbers, field: str) -> Numbers:
    return np.round(10 ** (6 * _uniform(number, field)) * 100).astype(np.int64)


def _uniform(number: Numbers, field: str) -> npt.NDArray[np.float64]:
    """A number in [0, 1) that is always the same for one field of one event."""
    return (_hash(number, field) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _below(number: Numbers, field: str, limit: Numbers | int) -> Numbers:
    return (_uniform(number, field) * limit).astype(np.int64)


def _hash(number: Numbers, field: str) -> npt.NDArray[np.uint64]:
    salt = int.from_bytes(hashlib.blake2b(field.encode(), digest_size=8).digest())
    # The mixing steps of SplitMix64: every bit of the number decides about every bit of the hash.
    with np.errstate(over="ignore"):
        mixed = (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))


def _choice(number: Numbers, field: str, values: tuple[str, ...]) -> pa.Array:
    return pa.array(values).take(pa.array(_below(number, field, len(values))))


def _padding(number: Numbers, size: int) -> pa.Array:
    """Text that makes rows as wide as real ones are; a few dozen different ones are enough for that."""
    texts = [f"{chr(97 + at % 26)}{at:02d}" * (size // 3 + 1) for at in range(64)]
    return pa.array([text[:size] for text in texts]).take(pa.array(_below(number, "padding", len(texts))))
