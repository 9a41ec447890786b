"""Signatures of prepared files: Ed25519 over the whole file.

A signed file ends with the public key and the signature, and its header says so. The signature
covers every other byte; docs/internals/file-format.md describes the layout.
"""

from __future__ import annotations

import os
import struct
from hashlib import sha512
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from fourfold.errors import InputError, ModelError
from fourfold.plan.container import HEADER, Container, write_pieces

KEY_BYTES, SIGNATURE_BYTES = 32, 64
TRAILER_BYTES = KEY_BYTES + SIGNATURE_BYTES
DOMAIN = b"fourfold prepared file\0"  # keeps signatures apart from those of other programs
_FILE_BYTES_AT, _TRAILER_AT, _CRC_AT = 16, 40, 60  # fields of the header
_KEY_FILE_MODE = 0o600


class FileSignature(NamedTuple):
    """The end of a signed file: the public key as hexadecimal digits, and the signature."""

    key: str
    value: bytes


def read_signature(file: Container) -> FileSignature | None:
    """Return the signature of a file, not verified yet; None if the file has none."""
    content = file.content
    (size,) = struct.unpack_from("<I", content, _TRAILER_AT)
    if size == 0:
        return None
    if size != TRAILER_BYTES or len(content) < HEADER.size + size:
        why = f"it has a signature of {size} bytes instead of {TRAILER_BYTES}"
        raise ModelError(f"{file.title} is damaged", why, "copy it again, or sign it again")
    trailer = bytes(content[-TRAILER_BYTES:])
    return FileSignature(trailer[:KEY_BYTES].hex(), trailer[KEY_BYTES:])


def can_verify() -> bool:
    """Return whether the package that verifies signatures is installed."""
    return find_spec("cryptography") is not None


def verify_signature(file: Container, signature: FileSignature) -> None:
    """Raise ModelError unless the signature is that of the file by the key."""
    ed25519 = _import("hazmat.primitives.asymmetric.ed25519")
    key = bytes.fromhex(signature.key)
    try:
        public = ed25519.Ed25519PublicKey.from_public_bytes(key)
        public.verify(signature.value, _message(file.content[:-SIGNATURE_BYTES]))
    except (_import("exceptions").InvalidSignature, ValueError) as error:
        raise ModelError(
            f"the signature of {file.title} is not valid",
            "the file was changed after it was signed",
            "get the file again from its author, or sign it again if you changed it",
        ) from error


def _message(*signed: bytes | memoryview) -> bytes:
    """Return what is signed: the digest of the file up to the signature."""
    digest = sha512()
    for piece in signed:
        digest.update(piece)
    return DOMAIN + digest.digest()


def sign_file(path: Path, key_file: Path) -> str:
    """Sign a prepared file in place of an earlier signature; return the public key."""
    private = _load_key(key_file)
    key = private.public_key().public_bytes_raw()
    try:
        file = Container(path.read_bytes(), f"'{path}'")
    except OSError as error:
        fix = "check the path and that the file may be read"
        raise InputError(f"cannot open '{path}'", str(error), fix) from error
    file.verify()
    if file.names[:1] != ("index",):
        why, fix = "it holds no index of models", "sign files that 'fourfold prepare' wrote"
        raise InputError(f"'{path}' is not a prepared file", why, fix)
    end = file.size - (0 if read_signature(file) is None else TRAILER_BYTES)
    header = _signed_header(bytes(file.content[: HEADER.size]), end + TRAILER_BYTES)
    pieces = (header, file.content[HEADER.size : end], key)
    value: bytes = private.sign(_message(*pieces))
    try:
        write_pieces(path, (*pieces, value), os.stat(path).st_mode & 0o777, sync=True)
    except OSError as error:
        fix = "choose a writable folder on a disk with enough free space"
        raise InputError(f"cannot write '{path}'", str(error), fix) from error
    return str(key.hex())


def _signed_header(header: bytes, size: int) -> bytes:
    """Return the header of a file that is `size` bytes with its signature."""
    changed = bytearray(header)
    struct.pack_into("<Q", changed, _FILE_BYTES_AT, size)
    struct.pack_into("<I", changed, _TRAILER_AT, TRAILER_BYTES)
    struct.pack_into("<I", changed, _CRC_AT, crc32(changed[:_CRC_AT]))
    return bytes(changed)


def create_key(path: Path) -> str:
    """Write a new private key that only the user can read; return its public key."""
    ed25519 = _import("hazmat.primitives.asymmetric.ed25519")
    serialization = _import("hazmat.primitives.serialization")
    private = ed25519.Ed25519PrivateKey.generate()
    text = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _KEY_FILE_MODE)
    except OSError as error:
        why = "it exists already" if isinstance(error, FileExistsError) else str(error)
        fix = "choose the name of a new file in a writable folder"
        raise InputError(f"cannot write the key '{path}'", why, fix) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
    return str(private.public_key().public_bytes_raw().hex())


def _load_key(path: Path) -> Any:
    """Return the private Ed25519 key in a PEM file."""
    serialization = _import("hazmat.primitives.serialization")
    ed25519 = _import("hazmat.primitives.asymmetric.ed25519")
    fix = "pass a key that 'fourfold sign --new-key' or 'openssl genpkey' wrote, without a password"
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, TypeError, ValueError) as error:
        raise InputError(f"cannot read the key '{path}'", str(error), fix) from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise InputError(f"cannot sign with the key '{path}'", "it is not an Ed25519 key", fix)
    return key


def _import(name: str) -> Any:
    """Return a module of the optional package `cryptography`."""
    try:
        return import_module(f"cryptography.{name}")
    except ImportError as error:
        raise InputError(
            "signatures of prepared files need the package 'cryptography'",
            "it is not installed",
            "install it with: pip install 'fourfold[sign]'",
        ) from error
