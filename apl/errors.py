"""Every error apl raises on purpose, in one tree.

::

    APLError
    ├── ConfigError              an option does not exist or does not fit
    ├── InputError               an argument of a call does not fit
    ├── MissingDependency        an optional package or model is not installed (also an ImportError)
    ├── StoreError               the store cannot be used as asked
    │   ├── ForeignStoreError    the file is not an apl store
    │   ├── SchemaVersionError   the file was written by an older or newer apl
    │   ├── EmbedderMismatchError  the file's vectors come from another embedder
    │   └── ReadOnlyStoreError   a write was asked of a store that can only be read
    ├── TokenizerError           a tokenizer cannot be loaded or failed
    ├── EmbeddingError           an embedder failed or returned vectors of the wrong shape
    ├── ExtractionError          an extractor failed or its input cannot be read
    └── PayloadError             a text is not a payload of the named form

Each message says what is wrong and how to mend it; attributes carry the values, and every error pickles.
A gate's rejection is a value (`Verdict`), never an error.
"""

from __future__ import annotations


class APLError(Exception):
    """The root: catching it catches everything apl raises on purpose."""


class ConfigError(APLError):
    """An option does not exist or its value does not fit."""


class InputError(APLError):
    """An argument of a call does not fit."""


class MissingDependency(APLError, ImportError):  # noqa: N818 - the name users read
    """An optional package or model is not installed; the message names the command that installs it."""

    def __init__(self, message: str, *, command: str | None = None) -> None:
        super().__init__(message)
        self.command = command


class StoreError(APLError):
    """The store cannot be used as asked."""

    def __init__(self, message: str, *, location: str | None = None) -> None:
        super().__init__(message)
        self.location = location


class ForeignStoreError(StoreError):
    """The file exists but is not an apl store; nothing in it was changed."""


class SchemaVersionError(StoreError):
    """The store was written with another schema version; nothing in it was changed."""

    def __init__(
        self,
        message: str,
        *,
        location: str | None = None,
        found: int | None = None,
        expected: int | None = None,
    ) -> None:
        super().__init__(message, location=location)
        self.found = found
        self.expected = expected


class EmbedderMismatchError(StoreError):
    """The store's vectors come from another embedder, so cosines with the present one mean nothing."""

    def __init__(
        self,
        message: str,
        *,
        location: str | None = None,
        found: str | None = None,
        expected: str | None = None,
    ) -> None:
        super().__init__(message, location=location)
        self.found = found
        self.expected = expected


class ReadOnlyStoreError(StoreError):
    """A write was asked of a store that was opened, or can only be opened, for reading."""


class TokenizerError(APLError):
    """A tokenizer cannot be loaded or failed on a text."""


class EmbeddingError(APLError):
    """An embedder failed or returned vectors of the wrong shape."""


class ExtractionError(APLError):
    """An extractor failed, or the triples it was given cannot be read."""


class PayloadError(APLError):
    """A text is not a payload of the form it was said to have."""
