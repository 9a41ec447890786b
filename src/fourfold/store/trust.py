"""Trust in prepared files: their binaries and kernels are code, so an unexpected one is refused,
and a file that must be signed is verified before it is used.
"""

from __future__ import annotations

from fourfold.config import BY_EXTENSION, trusted_keys
from fourfold.errors import InputError, cannot_open
from fourfold.plan.container import EXTENSION, IN_MEMORY, Container
from fourfold.store.signature import read_signature, verify_signature


def open_trusted(source: str | bytes, trust: str) -> Container:
    """Return a file that one of the keys in a level of trust signed.

    Raises InputError if the signature is missing, or by another key, and for trust='extension':
    files of that extension are opened without this function.
    """
    if trust == BY_EXTENSION:
        raise _unexpected(source)
    title, content = IN_MEMORY, source
    if isinstance(source, str):
        title = f"'{source}'"
        # A copy, because a mapped file can change after its signature was verified.
        try:
            with open(source, "rb") as file:
                content = file.read()
        except OSError as error:
            raise cannot_open(source, error) from error
    assert isinstance(content, bytes)
    container, keys = Container(content, title), trusted_keys(trust)
    signature = read_signature(container)
    if signature is None:
        why = "trust='signed:KEY' opens only prepared files with a signature"
        fix = "sign it with 'fourfold sign FILE --key KEY', or get a signed file from its author"
        raise InputError(f"{title} is not signed", why, fix)
    if signature.key not in keys:
        why = f"it is signed with the key {signature.key}, not with {' or '.join(keys)}"
        fix = "get a file that is signed with your key, or name this key if you trust its owner"
        raise InputError(f"{title} is signed with another key", why, fix)
    verify_signature(container, signature)
    return container


def _unexpected(source: str | bytes) -> InputError:
    if isinstance(source, bytes):
        return InputError(
            "the model in memory is a prepared file",
            "a prepared file holds compiled code, and bytes have no extension that says so",
            f"pass the path of the {EXTENSION} file, or trust='all' if you made it",
        )
    return InputError(
        f"'{source}' is a prepared file under another name",
        "a prepared file holds compiled code, so its extension must say what it is",
        f"rename it to end in {EXTENSION} if that is what you expect, pass trust='all' if you made"
        " it, or get the model itself",
    )
