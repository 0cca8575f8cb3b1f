"""What it costs to open a private key or a key store with its password: said before it is opened, because the library
holds the interpreter until it is done, and whoever writes a configuration chooses how long that takes.

    EncryptedPrivateKeyInfo   { { PBES2, { { PBKDF2, { salt, ROUNDS, … } }, … } }, key }         RFC 5958, RFC 8018
                              { { PBES2, { { scrypt, { salt, N, r, p } }, … } }, key }           RFC 7914
    PFX                       … { PBE with SHA-1, { salt, ROUNDS } } … MacData { …, salt, ROUNDS } RFC 7292

These stand somewhere in DER, within octet strings too. What is no DER costs nothing: the library refuses it at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

MOST_ROUNDS, MOST_MEMORY = 1_000_000, 64 * 1024 * 1024
"""Rounds of a hash, which take a quarter of a second, and bytes for scrypt. OpenSSL makes 2,048 rounds by default, Java
10,000; 600,000 are recommended."""
_DEEPEST = 32
_INTEGER, _OCTETS, _NAME, _SEQUENCE, _CONSTRUCTED = 0x02, 0x04, 0x06, 0x30, 0x20
_PBKDF2, _SCRYPT = bytes.fromhex("2a864886f70d01050c"), bytes.fromhex("2b06010401da47040b")
_PBES1, _PKCS12_PBE = bytes.fromhex("2a864886f70d0105"), bytes.fromhex("2a864886f70d010c01")
"""The beginnings of names: PKCS #5's algorithms, and those of PKCS #12."""


class _Element(NamedTuple):
    tag: int
    content: memoryview


class _Cost(NamedTuple):
    rounds: int
    memory: int = 0


def cost_problem(data: bytes) -> str | None:
    """Returns why a key or store in DER is not opened; None where it costs little enough."""
    costs = list(_costs(memoryview(data), 0))
    rounds, memory = sum(cost.rounds for cost in costs), max((cost.memory for cost in costs), default=0)
    if rounds > MOST_ROUNDS:
        return (
            f"opening it takes {rounds:,} rounds of its key derivation, and {MOST_ROUNDS:,} is the limit: encrypt it "
            "anew (openssl pkcs8 -topk8 -iter 600000)"
        )
    if memory > MOST_MEMORY:
        return (
            f"opening it takes {memory >> 20:,} MiB (scrypt), and {MOST_MEMORY >> 20} is the limit: encrypt it anew "
            "(openssl pkcs8 -topk8 -iter 600000)"
        )
    return None


def _costs(data: memoryview, depth: int) -> Iterator[_Cost]:
    if depth > _DEEPEST:
        return
    elements = list(_elements(data))
    if cost := _cost(elements):
        yield cost
    for element in elements:
        within = element.content
        if element.tag & _CONSTRUCTED or (element.tag == _OCTETS and within[:1] == bytes([_SEQUENCE])):
            yield from _costs(within, depth + 1)


def _cost(elements: Sequence[_Element]) -> _Cost | None:
    """Returns what the elements of a sequence say: of an algorithm with its parameters, or of a MacData."""
    tags = [element.tag for element in elements]
    if tags == [_SEQUENCE, _OCTETS, _INTEGER]:
        return _Cost(_number(elements[2]))
    if tags[:2] != [_NAME, _SEQUENCE]:
        return None
    name = bytes(elements[0].content)
    numbers = [_number(each) for each in _elements(elements[1].content) if each.tag == _INTEGER]
    if name == _SCRYPT and len(numbers) >= 3:
        n, r, p = numbers[:3]
        return _Cost(n * r * p, 128 * n * r)
    if numbers and (name == _PBKDF2 or name.startswith(_PKCS12_PBE) or name[:-1] == _PBES1):
        return _Cost(numbers[0])
    return None


def _elements(data: memoryview) -> Iterator[_Element]:
    """Yields the elements that stand behind each other, as far as they are DER."""
    at = 0
    while at + 2 <= len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            if not 0 < size <= 8 or at + size > len(data):
                return
            length = int.from_bytes(data[at : at + size], "big")
            at += size
        if at + length > len(data):
            return
        yield _Element(tag, data[at : at + length])
        at += length


def _number(element: _Element) -> int:
    return int.from_bytes(element.content[:16], "big")
