"""Something wrong with bytes."""

from __future__ import annotations

from random import Random

_NUMBERS = (
    *(bytes((each,)) for each in (0x00, 0x01, 0x7F, 0x80, 0xFF)),
    *((1 << bits).to_bytes(4, "big") for bits in (0, 8, 16, 24, 27, 30, 31)),
    *((-number).to_bytes(4, "big", signed=True) for number in (1, 4, 12, 100, 65_532, 1 << 31)),
    *(number.to_bytes(8, "big", signed=True) for number in (-1, 1 << 62, (1 << 63) - 1, -(1 << 63))),
    *(number.to_bytes(2, "big", signed=True) for number in (-1, -2, 32_767, -32_768)),
    b"\xff\xff\xff\xff\x0f",
    b"\x80" * 12,
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
)
"""Those that counts and lengths go wrong with."""


def mutated(
    dice: Random, data: bytes | bytearray, others: tuple[bytes, ...] = (), most: int = 4, start: int = 0
) -> bytearray:
    """`data` with up to `most` things wrong from `start` on; `others`: what pieces may be of."""
    result = bytearray(data)
    for _ in range(dice.randint(1, most)):
        at = dice.randint(start, max(start, len(result)))
        way = dice.randrange(8)
        if way <= 1 and at < len(result):
            result[at] ^= 1 << dice.randrange(8)
        elif way <= 3:
            number = dice.choice(_NUMBERS)
            result[at : at + len(number)] = number
        elif way == 4:
            del result[at : at + dice.randint(1, 16)]
        elif way == 5:
            result[at:at] = result[at : at + dice.randint(1, 64)] * dice.choice((1, 1, 2, 20))
        elif way == 6 and others:
            other = dice.choice(others)
            begin = dice.randrange(len(other) + 1)
            result[at : at + dice.choice((0, 40))] = other[begin : begin + dice.randint(1, 200)]
        elif way == 7 and dice.random() < 0.3:
            del result[at:]
    return result
