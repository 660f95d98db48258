"""Answers of a model that were paid for once: in memory, or in a folder that survives restarts."""

from __future__ import annotations

import json
import logging
import os
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Protocol

from apl.errors import ConfigError
from apl.providers.chat import Reply
from apl.text import content_hash

logger = logging.getLogger(__name__)


class ReplyCache(Protocol):
    """Where answers are kept, by the hash of what was asked."""

    def get(self, key: str) -> Reply | None:
        """The answer, or None where there is none or it is damaged."""
        ...

    def put(self, key: str, reply: Reply) -> None:
        """Keep an answer."""
        ...


class MemoryCache:
    """Keeps the last answers of this process."""

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._replies: OrderedDict[str, Reply] = OrderedDict()

    def get(self, key: str) -> Reply | None:
        """The answer, if it is among the last ones."""
        with self._lock:
            if key in self._replies:
                self._replies.move_to_end(key)
            return self._replies.get(key)

    def put(self, key: str, reply: Reply) -> None:
        """Keep an answer; the one that was not asked for longest makes room."""
        with self._lock:
            self._replies[key] = reply
            self._replies.move_to_end(key)
            if len(self._replies) > self._capacity:
                self._replies.popitem(last=False)


class FolderCache:
    """Keeps answers as files of a folder; many processes may share it.

    A file is written beside its place and moved there, so it is whole or not there; its checksum is tested when it is
    read. The prompts, and with them the texts, are not stored, but an answer repeats parts of them.

    Raises:
        ConfigError: The folder cannot be made or written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder):
                pass
        except OSError as error:
            raise ConfigError(f"answers cannot be cached in {self._folder} ({error}): give a folder") from error

    def get(self, key: str) -> Reply | None:
        """The answer; a damaged file is as good as none, and is overwritten by the next answer."""
        path = self._path(key)
        try:
            entry = json.loads(path.read_bytes())
            reply = Reply(entry["text"], entry["prompt_tokens"], entry["completion_tokens"])
            if entry["hash"] == content_hash(reply.text) and _are_counts(reply.prompt_tokens, reply.completion_tokens):
                return reply
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            logger.debug("cached answer %s: %s", path, error)
        logger.warning("the cached answer %s is damaged and is asked for again", path)
        return None

    def put(self, key: str, reply: Reply) -> None:
        """Keep an answer; one that cannot be written (a full disk) is lost, with a warning, and nothing else."""
        path = self._path(key)
        entry = {
            "text": reply.text,
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
            "hash": content_hash(reply.text),
        }
        try:
            path.parent.mkdir(exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".new")
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                json.dump(entry, file)
            os.replace(name, path)
        except OSError as error:
            logger.warning("an answer could not be cached in %s (%s)", self._folder, error)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


def _are_counts(*counts: Any) -> bool:
    return all(count is None or (type(count) is int and count >= 0) for count in counts)
