"""Networks in files: safetensors, with the program as JSON in the metadata, under a checksum."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import deserialize
from safetensors.numpy import save

from fedloom import checksums
from fedloom.errors import DataError
from fedloom.files import write_bytes
from fedloom.models.graph.program import Program, parsed
from fedloom.models.graph.trial import check

_KEY = "fedloom_graph"
_DTYPES = {
    **{"F64": np.float64, "F32": np.float32, "F16": np.float16},
    **{"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8},
    "BOOL": np.bool_,
}


def write(path: Path, program: Program, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a program and its arrays, with a checksum."""
    write_bytes(path, encoded(program, arrays), shared=True)


def encoded(program: Program, arrays: Mapping[str, np.ndarray]) -> bytes:
    """A program and its arrays as bytes."""
    plain = {name: np.array(array, order="C", copy=True) for name, array in arrays.items()}
    about = f"{checksums.BLANK} {program.text}"
    return checksums.seal(save(plain, metadata={_KEY: about}))


def read(path: Path) -> tuple[Program, dict[str, np.ndarray]]:
    """The program and the arrays of a file, checked before anything is computed with them."""
    data = checksums.unseal(path)
    try:
        return decoded(data)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def decoded(data: bytes) -> tuple[Program, dict[str, np.ndarray]]:
    """The program and the arrays of bytes that anybody may have made."""
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        text: str = header["__metadata__"][_KEY].partition(" ")[2]
        entries = deserialize(data)
        arrays = {
            name: np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in sorted(entries)
        }
    except Exception as error:  # damaged or forged bytes break readers in many ways
        raise DataError(
            f"is not a network that fedloom wrote ({type(error).__name__}: {error}). "
            f"Make it with `fedloom import-torch`."
        ) from error
    program = parsed(text)
    check(program, arrays)
    return program, arrays
