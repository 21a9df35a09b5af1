"""Keys, the seeds that two sites share, and the masks that grow from seeds."""

import hashlib

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

LENGTH = 32  # bytes of a key or a seed


def new_key() -> bytes:
    """A fresh secret key."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public(key: bytes) -> bytes:
    """What may be told of a secret key."""
    return X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()


def agree(key: bytes, other: bytes, purpose: str) -> bytes:
    """The seed that the owners of two keys both find, and nobody else."""
    shared = X25519PrivateKey.from_private_bytes(key).exchange(
        X25519PublicKey.from_public_bytes(other)
    )
    info = f"fedloom {purpose}".encode()
    return HKDF(hashes.SHA256(), LENGTH, salt=None, info=info).derive(shared)


def masking(message: bytes) -> str:
    """The purpose of a mask under an answer to this message.

    Masks of different purposes do not cancel: a server that asks some sites one thing and some
    another opens noise (Pasquini et al., CCS 2022, have the attack and this remedy).
    """
    return f"mask {hashlib.sha256(message).hexdigest()}"


def mask(seed: bytes, count: int) -> np.ndarray:
    """`count` elements of the ring that look uniform to whoever lacks the seed."""
    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * count)), "<u8").astype(np.uint64)


def seal(seed: bytes, sender: int, receiver: int, text: bytes, context: bytes) -> bytes:
    """Encrypt for the other owner of a seed; a seed serves one text in each direction."""
    return AESGCM(seed).encrypt(_nonce(sender, receiver), text, context)


def unseal(seed: bytes, sender: int, receiver: int, sealed: bytes, context: bytes) -> bytes:
    """Decrypt; raises InvalidTag where anything was changed, or sealed in another context."""
    return AESGCM(seed).decrypt(_nonce(sender, receiver), sealed, context)


def _nonce(sender: int, receiver: int) -> bytes:
    return sender.to_bytes(6, "big") + receiver.to_bytes(6, "big")
