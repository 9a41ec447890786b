"""Structures inside DLPack capsules: versioned since DLPack 1.0, unversioned before."""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

VERSION = (1, 0)  # version that is requested and exported
READ_ONLY, IS_COPIED = 1, 2  # flags
KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # type codes by NumPy's kind letters
BFLOAT = 4

Deleter = ctypes.CFUNCTYPE(None, c_void_p)  # called with the address of the managed tensor


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", c_void_p),
        ("device", c_int32),
        ("ordinal", c_int32),
        ("rank", c_int32),
        ("kind", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("start", c_uint64),
    )


class PlainTensor(ctypes.Structure):
    """DLManagedTensor; its tensor has the same layout as in version 1."""

    _fields_ = (("tensor", Tensor), ("context", c_void_p), ("deleter", Deleter))
    major, minor, flags = *VERSION, 0


class VersionedTensor(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", Deleter),
        ("flags", c_uint64),
        ("tensor", Tensor),
    )


class CapsuleForm(NamedTuple):
    """A type of capsule: its name before and after its content is taken, and the
    structure inside.
    """

    name: bytes
    used: bytes
    structure: type[PlainTensor] | type[VersionedTensor]


PLAIN = CapsuleForm(b"dltensor", b"used_dltensor", PlainTensor)
VERSIONED = CapsuleForm(b"dltensor_versioned", b"used_dltensor_versioned", VersionedTensor)

Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [c_void_p, ctypes.c_char_p, Destructor]
_python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
# Capsules are passed by address: one that is being destroyed must not become an object again.
_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)


def new_capsule(managed: ctypes.Structure, form: CapsuleForm, destructor: Any) -> Any:
    """Return a capsule that another package can take."""
    return _python.PyCapsule_New(ctypes.addressof(managed), form.name, destructor)


def capsule_content(capsule: int) -> tuple[CapsuleForm, int] | None:
    """Return the form and content address of the capsule at an address; None if it was taken
    already or is not a DLPack capsule.
    """
    for form in (VERSIONED, PLAIN):
        if _is_valid(capsule, form.name):
            return form, _pointer(capsule, form.name)
    return None


def mark_used(capsule: Any, form: CapsuleForm) -> None:
    """Mark a capsule's content as taken."""
    _python.PyCapsule_SetName(capsule, form.used)
