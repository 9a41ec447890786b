"""Signatures in the C player: SHA-512 and Ed25519 against RFC 8032 and another implementation."""

from __future__ import annotations

import random
import subprocess
from hashlib import sha512
from importlib.util import find_spec
from pathlib import Path

import pytest
from c_player.build import PLAYER, SANITIZED, build_program

PROGRAM = (
    PLAYER / "ed25519.c",
    PLAYER / "sha512.c",
    Path(__file__).with_name("verify_signatures.c"),
)
PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
# RFC 8032, section 7.1: public key, message, signature.
VECTORS = (
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555"
        "fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
)


def verify(cases: list[tuple[bytes, bytes, bytes]]) -> list[bool]:
    """Return whether the C player accepts each signature; its digests must be right."""
    lines = [f"{key.hex()} {message.hex() or '-'} {value.hex()}" for key, message, value in cases]
    program = build_program(PROGRAM, SANITIZED)
    done = subprocess.run(
        [str(program)], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    results = [line.split() for line in done.stdout.splitlines()]
    assert [digest for digest, _ in results] == [sha512(one[1]).hexdigest() for one in cases]
    return [valid == "1" for _, valid in results]


def standard_cases() -> list[tuple[bytes, bytes, bytes]]:
    return [tuple(map(bytes.fromhex, one)) for one in VECTORS]  # type: ignore[misc]


def test_vectors_of_the_standard_are_accepted() -> None:
    assert all(verify(standard_cases()))


def test_every_flipped_bit_is_detected() -> None:
    key, message, value = standard_cases()[2]
    parts = (key, message, value)
    cases = []
    for part, content in enumerate(parts):
        for bit in range(8 * len(content)):
            changed = bytearray(content)
            changed[bit // 8] ^= 1 << bit % 8
            cases.append((*parts[:part], bytes(changed), *parts[part + 1 :]))
    assert len(cases) == 8 * (32 + 2 + 64)
    assert not any(verify(cases))  # type: ignore[arg-type]


def test_other_forms_of_numbers_are_rejected() -> None:
    """A signature or a key has one form: a scalar below the order, y below the prime."""
    key, message, value = standard_cases()[0]
    scalar = int.from_bytes(value[32:], "little")
    larger = [(scalar + n * ORDER).to_bytes(32, "little") for n in (1, 2, 7)]
    cases = [(key, message, value[:32] + one) for one in larger]
    # The neutral element as the key and as the first half: valid for any message, if y = 1 is
    # written as 1; not if it is written as p + 1, or with the sign of a negative zero.
    neutral, zero = (1).to_bytes(32, "little"), bytes(32)
    negative = bytes([*neutral[:31], 0x80])
    cases += [(neutral, message, neutral + zero)]
    cases += [
        (one, message, neutral + zero) for one in ((PRIME + 1).to_bytes(32, "little"), negative)
    ]
    assert verify(cases) == [False, False, False, True, False, False]


@pytest.mark.skipif(find_spec("cryptography") is None, reason="cryptography is not installed")
def test_agrees_with_another_implementation() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    generator = random.Random(0)
    cases, expected = [], []
    for size in (*range(40), 111, 112, 113, 127, 128, 129, 239, 240, 241, 255, 256, 257, 4000):
        private = Ed25519PrivateKey.from_private_bytes(generator.randbytes(32))
        key, message = private.public_key().public_bytes_raw(), generator.randbytes(size)
        value = private.sign(message)
        cases += [(key, message, value), (key, message + b"\0", value)]
        cases += [(generator.randbytes(32), message, value)]
        cases += [(key, message, value[:32] + generator.randbytes(31) + b"\0")]
        expected += [True, False, False, False]
    assert verify([one for one in cases if len(one[1]) <= 4096]) == expected
