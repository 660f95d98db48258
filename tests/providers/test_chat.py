"""Whatever language model a user has is asked alike, and its own token counts are found."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from apl import Chunk
from apl.errors import ConfigError, ExtractionError, MissingDependency
from apl.providers import LLMExtractor, OpenAICompatible
from apl.providers.chat import Reply, as_chat_model, as_reply
from apl.sentences import split_sentences
from apl.symbols import Passage
from apl.testing import WordCounter

FACT = "1 | Northstar | acquired | DeltaPay"
TEXT = "Northstar acquired DeltaPay."
PASSAGE = Passage(Chunk(TEXT, id="c1"), split_sentences(TEXT))


# --- hosts' models ----------------------------------------------------------------------------------------------------


def test_langchain_chat_models() -> None:
    """FakeListChatModel tells no usage, an AIMessage with usage_metadata does; blocks of content are joined."""
    models = pytest.importorskip("langchain_core.language_models")
    messages = pytest.importorskip("langchain_core.messages")
    assert as_chat_model(models.FakeListChatModel(responses=[FACT])).ask("?") == Reply(FACT)
    assert as_chat_model(models.FakeListLLM(responses=[FACT])).ask("?") == Reply(FACT)
    told = messages.AIMessage(
        content=[{"type": "text", "text": "1 | Northstar "}, {"type": "text", "text": "| acquired | DeltaPay"}],
        usage_metadata={"input_tokens": 7, "output_tokens": 5, "total_tokens": 12},
    )
    model = as_chat_model(models.GenericFakeChatModel(messages=iter([told])))
    assert model.name == "GenericFakeChatModel"
    assert model.ask("?") == Reply(FACT, 7, 5)


def test_langchain_models_extract() -> None:
    """As the extractor's model, by what they answer."""
    models = pytest.importorskip("langchain_core.language_models")
    extractor = LLMExtractor(models.FakeListChatModel(responses=[FACT]), tokenizer=WordCounter())
    (extraction,) = extractor.extract([PASSAGE])
    assert [t.triple.tail for t in extraction.triples] == ["DeltaPay"]


def test_llama_index_llms() -> None:
    """MockLLM repeats the prompt; a CustomLLM's raw usage and its metadata's name are found."""
    llms = pytest.importorskip("llama_index.core.llms")
    assert as_chat_model(llms.MockLLM()).ask("Hello there.") == Reply("Hello there.")

    class Custom(llms.CustomLLM):  # type: ignore[name-defined, misc]
        @property
        def metadata(self) -> Any:
            return llms.LLMMetadata(model_name="custom-1")

        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            usage = {"prompt_tokens": len(prompt), "completion_tokens": 9}
            return llms.CompletionResponse(text=FACT, raw={"id": "x", "usage": usage})

        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            raise NotImplementedError

    model = as_chat_model(Custom())
    assert (model.name, model.ask("four")) == ("custom-1", Reply(FACT, 4, 9))
    extractor = LLMExtractor(Custom(), tokenizer=WordCounter())
    assert len(extractor.extract([PASSAGE])[0].triples) == 1
    assert (extractor.name, extractor.usage.completion_tokens, extractor.usage.counted_calls) == ("llm:custom-1", 9, 0)


def test_functions_and_other_objects() -> None:
    """A function is called by its name, an object by its model's; both may return a Reply."""

    class Client:
        model = "small"

        def invoke(self, prompt: str) -> str:
            return prompt.upper()

    def shout(prompt: str) -> Reply:
        return Reply(prompt.upper(), 1, 2)

    assert (as_chat_model(Client()).name, as_chat_model(Client()).ask("a").text) == ("small", "A")
    assert as_chat_model(shout).name.endswith("shout")
    assert as_chat_model(shout, name="mine").name == "mine"
    assert as_chat_model(shout).ask("a") == Reply("A", 1, 2)
    assert as_chat_model(as_chat_model(shout), name="other").name == "other"


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        ({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}, (3, 4)),
        ({"usage": {"input_tokens": 3, "output_tokens": 4}}, (3, 4)),
        ({"usage_metadata": {"prompt_token_count": 3, "candidates_token_count": 4}}, (3, 4)),
        ({"response_metadata": {"token_usage": {"prompt_tokens": 3, "completion_tokens": 4}}}, (3, 4)),
        ({"raw": {"prompt_eval_count": 3, "eval_count": 4}}, (3, 4)),
        ({"additional_kwargs": {"prompt_tokens": 3, "completion_tokens": 4}}, (3, 4)),
        ({"usage": {"prompt_tokens": 3}}, (None, None)),
        ({"usage": {"prompt_tokens": "3", "completion_tokens": True}}, (None, None)),
        ({"raw": None}, (None, None)),
    ],
)
def test_usage_is_found_where_providers_put_it(answer: dict[str, Any], tokens: tuple[int | None, int | None]) -> None:
    """OpenAI's, Anthropic's, Gemini's, LangChain's, Ollama's and LlamaIndex' places; half of it is none."""
    reply = as_reply(type("Answer", (), {"text": "x", **answer})())
    assert (reply.prompt_tokens, reply.completion_tokens) == tokens


@pytest.mark.parametrize("llm", [None, 3, "gpt-4o", LLMExtractor, object()])
def test_what_cannot_be_asked_is_refused(llm: Any) -> None:
    """With what could be given instead."""
    with pytest.raises(ConfigError, match=r"give a"):
        as_chat_model(llm)


def test_an_answer_without_text_is_an_error() -> None:
    """None, a number, an empty object."""
    for answer in (None, 3, object()):
        with pytest.raises(ExtractionError, match="no text was found"):
            as_reply(answer)


# --- a URL ------------------------------------------------------------------------------------------------------------


class Server:
    """Speaks as much of OpenAI's chat API as is used; remembers what it was sent, answers (status, body) in order."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answers: list[tuple[int, dict[str, Any], dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                outer.keys.append(self.headers["Authorization"])
                status, entry, headers = outer.answers.pop(0) if outer.answers else (200, completion(FACT), {})
                body = json.dumps(entry).encode()
                self.send_response(status)
                for name, value in {
                    "Content-Type": "application/json",
                    "Content-Length": str(len(body)),
                    **headers,
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"


def completion(text: str | None, usage: tuple[int, int] | None = (321, 12)) -> dict[str, Any]:
    """A response body."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    entry: dict[str, Any] = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    if usage:
        entry["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return entry


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on this machine; every connection is closed at the end."""
    pytest.importorskip("openai")
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


@pytest.fixture
def make(server: Server) -> Iterator[Callable[..., OpenAICompatible]]:
    """Makes models of the server, and closes their connections."""
    made: list[OpenAICompatible] = []

    def make_(**options: Any) -> OpenAICompatible:
        made.append(OpenAICompatible(server.url, "small-1", **options))
        return made[-1]

    yield make_
    for model in made:
        model.close()


def test_a_url_is_asked(server: Server, make: Callable[..., OpenAICompatible]) -> None:
    """One user message; the server's usage is the bill's; the key is sent and never shown."""
    model = make(api_key="sk-secret", max_tokens=99, extra={"seed": 1})
    extractor = LLMExtractor(model, tokenizer=WordCounter(), prices=(1, 10))
    (extraction,) = extractor.extract([PASSAGE])
    assert len(extraction.triples) == 1
    (sent,) = server.sent
    assert [message["role"] for message in sent["messages"]] == ["user"]
    assert TEXT in sent["messages"][0]["content"]
    assert {key: sent[key] for key in ("model", "temperature", "max_tokens", "seed")} == {
        "model": "small-1", "temperature": 0.0, "max_tokens": 99, "seed": 1,
    }  # fmt: skip
    assert server.keys == ["Bearer sk-secret"]
    assert "secret" not in repr(model)
    usage = extractor.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.counted_calls) == (321, 12, 0)
    assert usage.cost == pytest.approx(441e-6)
    assert extractor.name == "llm:small-1"


def test_a_busy_server_is_asked_again(server: Server, make: Callable[..., OpenAICompatible]) -> None:
    """By the extractor, which counts it, not by the client behind its back; Retry-After is waited for."""
    busy: dict[str, Any] = {"error": {"message": "slow down"}}
    server.answers += [(429, busy, {"Retry-After": "3"}), (503, busy, {}), (200, completion(FACT), {})]
    slept: list[float] = []
    extractor = LLMExtractor(make(), tokenizer=WordCounter(), clock=lambda: sum(slept), sleep=slept.append)
    assert len(extractor.extract([PASSAGE])[0].triples) == 1
    assert len(server.sent) == 3
    assert extractor.usage.retries == 2
    assert 3 <= slept[0] < 4


def test_a_refused_key_ends_the_run(server: Server, make: Callable[..., OpenAICompatible]) -> None:
    """As a fault of the set-up, in which the key does not stand."""
    server.answers += [(401, {"error": {"message": "Incorrect API key provided"}}, {})]
    with pytest.raises(ConfigError, match="Incorrect API key") as raised:
        LLMExtractor(make(api_key="sk-secret")).extract([PASSAGE])
    assert "secret" not in str(raised.value)
    assert len(server.sent) == 1


def test_a_server_without_usage_or_text(server: Server, make: Callable[..., OpenAICompatible]) -> None:
    """No text is an empty answer; without usage the tokens are counted here."""
    server.answers += [(200, completion(None, usage=None), {})]
    extractor = LLMExtractor(make(temperature=None), tokenizer=WordCounter())
    assert extractor.extract([PASSAGE])[0].triples == ()
    assert "temperature" not in server.sent[0]
    assert (extractor.usage.counted_calls, extractor.usage.completion_tokens) == (1, 0)


def test_no_server_is_said(make: Callable[..., OpenAICompatible]) -> None:
    """A refused connection is retried, then reported with what to do."""
    model = OpenAICompatible("http://127.0.0.1:9/v1", "m", timeout_s=5)
    extractor = LLMExtractor(model, max_retries=1, sleep=lambda _: None)
    with pytest.raises(ExtractionError, match="did not answer after 2 attempts"):
        extractor.extract([PASSAGE])
    model.close()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingDependency, match=r"pip install 'apl-rag\[llm\]'"):
        OpenAICompatible(None, "m")


def test_a_model_needs_a_name() -> None:
    """An empty name is no name."""
    pytest.importorskip("openai")
    with pytest.raises(ConfigError, match="give the name"):
        OpenAICompatible(None, "")
