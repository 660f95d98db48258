"""Three applications as people write them: the generator gets the payload, the rest of the chain stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_classic.chains import create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatResult
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from pydantic import Field

from apl import AutoPrunedLayer, Scope
from apl.testing import WordCounter
from langchain_apl import APLRetriever, turn_of

ANSWER = "DeltaPay, in March 2022."
ADA: Any = {"metadata": {"apl_tenant": "acme", "apl_user": "ada", "apl_session": "s1"}}


class RecordingModel(GenericFakeChatModel):
    """LangChain's fake chat model, which also keeps every prompt it was given."""

    prompts: list[list[BaseMessage]] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.prompts.append(list(messages))
        return super()._generate(messages, *args, **kwargs)

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> RecordingModel:
        """The script decides when a tool is called."""
        return self


def model_that(*says: AIMessage | str) -> RecordingModel:
    """A model that says these things, one a call."""
    return RecordingModel(messages=iter(says))


def format_docs(documents: Sequence[Document]) -> str:
    """As in LangChain's own tutorials."""
    return "\n\n".join(document.page_content for document in documents)


@pytest.fixture
def retriever(layer: AutoPrunedLayer, host: BaseRetriever) -> APLRetriever:
    """The host, wrapped."""
    return APLRetriever(host=host, layer=layer)


@pytest.fixture
def payload(retriever: APLRetriever, layer: AutoPrunedLayer, question: str) -> str:
    """What the story's question is answered from: much less than the host's text, braces included."""
    turn = turn_of(retriever.invoke(question), layer)
    assert turn is not None
    assert turn.form == "outline"
    assert turn.tokens < 0.6 * turn.host_tokens
    assert '{"status": "settled"}' in turn.text
    assert "{merchant}" in turn.text
    return turn.text


# --- LCEL -------------------------------------------------------------------------------------------------------------

PROMPT = ChatPromptTemplate.from_messages([("system", "Answer from this:\n{context}"), ("human", "{question}")])


def lcel_chain(retriever: Runnable[str, list[Document]], model: RecordingModel) -> Runnable[str, str]:
    """Retriever, prompt, model and parser in a row."""
    inputs: Any = {"context": retriever | format_docs, "question": RunnablePassthrough()}
    return inputs | PROMPT | model | StrOutputParser()


def test_lcel_prompt_holds_exactly_the_payload(retriever: APLRetriever, payload: str, question: str) -> None:
    """Byte for byte between the template's own words; braces in the payload are data, not variables."""
    model = model_that(ANSWER)
    assert lcel_chain(retriever, model).invoke(question) == ANSWER
    ((system, human),) = model.prompts
    assert (system.content, human.content) == (f"Answer from this:\n{payload}", question)


def test_lcel_with_the_bare_host_is_the_same_chain(host: BaseRetriever, question: str) -> None:
    """Without apl the same function builds the same chain, which gets the host's text."""
    model = model_that(ANSWER)
    assert lcel_chain(host, model).invoke(question) == ANSWER
    assert model.prompts[0][0].content == f"Answer from this:\n{format_docs(host.documents)}"


async def test_lcel_awaited_gets_the_same_prompt(retriever: APLRetriever, payload: str, question: str) -> None:
    """`ainvoke`."""
    model = model_that(ANSWER)
    assert await lcel_chain(retriever, model).ainvoke(question) == ANSWER
    assert model.prompts[0][0].content == f"Answer from this:\n{payload}"


async def test_lcel_streams_as_before(retriever: APLRetriever, payload: str, question: str) -> None:
    """`stream` and `astream` come in pieces and get the same prompt."""
    model = model_that(ANSWER, ANSWER)
    chain = lcel_chain(retriever, model)
    pieces = list(chain.stream(question))
    assert (len(pieces) > 1, "".join(pieces)) == (True, ANSWER)
    assert [piece async for piece in chain.astream(question)] == pieces
    assert [prompt[0].content for prompt in model.prompts] == [f"Answer from this:\n{payload}"] * 2


def test_lcel_batches_questions(retriever: APLRetriever, payload: str, question: str) -> None:
    """Several questions at once, each with its own prompt."""
    model = model_that(ANSWER, ANSWER)
    assert lcel_chain(retriever, model).batch([question, "Who leads DeltaPay?"]) == [ANSWER] * 2
    assert {prompt[1].content for prompt in model.prompts} == {question, "Who leads DeltaPay?"}
    assert {prompt[0].content for prompt in model.prompts} == {f"Answer from this:\n{payload}"}


@pytest.mark.parametrize("layout", ["spread", "per_document", "single"])
def test_lcel_prompt_holds_the_counted_tokens_in_every_layout(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str, layout: Any
) -> None:
    """What stands between the template's words is what the turn counted."""
    layer = open_layer(forms=("outline",))
    seen: list[Document] = []

    def format_and_keep(documents: list[Document]) -> str:
        seen.extend(documents)
        return format_docs(documents)

    model = model_that(ANSWER)
    retriever = APLRetriever(host=host, layer=layer, layout=layout)
    inputs: Any = {"context": retriever | format_and_keep, "question": RunnablePassthrough()}
    (inputs | PROMPT | model).invoke(question)
    turn = turn_of(seen, layer)
    assert turn is not None
    context = model.prompts[0][0].content.removeprefix("Answer from this:\n")
    assert context == turn.text
    assert turn.tokens == WordCounter().count(context) < turn.host_tokens


# --- create_retrieval_chain -------------------------------------------------------------------------------------------

STUFF_PROMPT = ChatPromptTemplate.from_messages([("system", "Answer from this:\n{context}"), ("human", "{input}")])


def retrieval_chain(
    retriever: Runnable[str, list[Document]], model: RecordingModel, **options: Any
) -> Runnable[dict[str, Any], dict[str, Any]]:
    """LangChain's ready-made chain."""
    return create_retrieval_chain(retriever, create_stuff_documents_chain(model, STUFF_PROMPT, **options))


def test_retrieval_chain_holds_exactly_the_payload(
    retriever: APLRetriever, layer: AutoPrunedLayer, payload: str, question: str
) -> None:
    """The prompt has the payload, `context` keeps every source, and the answer can be remembered from it."""
    model = model_that(ANSWER)
    result = retrieval_chain(retriever, model).invoke({"input": question}, ADA)
    assert result["answer"] == ANSWER
    assert model.prompts[0][0].content == f"Answer from this:\n{payload}"
    assert [document.metadata["source"] for document in result["context"]][:2] == [
        "press/purchase.txt",
        "press/deltapay.txt",
    ]
    turn = turn_of(result["context"], layer)
    assert turn is not None
    assert (turn.text, turn.scope) == (payload, Scope("acme", "ada", "s1"))
    assert layer.remember(result["context"][0].metadata["apl_turn"], result["answer"]).status == "pending"
    assert layer.codebook.stats().turns == 1


def test_retrieval_chain_with_the_bare_host_is_the_same_chain(host: BaseRetriever, question: str) -> None:
    """Same function, same keys, the host's text."""
    model = model_that(ANSWER)
    result = retrieval_chain(host, model).invoke({"input": question})
    assert set(result) == {"input", "context", "answer"}
    assert model.prompts[0][0].content == f"Answer from this:\n{format_docs(host.documents)}"


async def test_retrieval_chain_awaited_gets_the_same_prompt(
    retriever: APLRetriever, layer: AutoPrunedLayer, payload: str, question: str
) -> None:
    """`ainvoke`, with the scope of the run."""
    model = model_that(ANSWER)
    result = await retrieval_chain(retriever, model).ainvoke({"input": question}, ADA)
    assert set(result) == {"input", "context", "answer"}
    assert model.prompts[0][0].content == f"Answer from this:\n{payload}"
    turn = turn_of(result["context"], layer)
    assert turn is not None
    assert turn.scope == Scope("acme", "ada", "s1")


async def test_retrieval_chain_streams_as_before(retriever: APLRetriever, payload: str, question: str) -> None:
    """First the documents, then the answer in pieces; sync and async."""
    model = model_that(ANSWER, ANSWER)
    chain = retrieval_chain(retriever, model)
    pieces = list(chain.stream({"input": question}))
    awaited = [piece async for piece in chain.astream({"input": question})]
    for came in (pieces, awaited):
        assert "".join(piece.get("answer", "") for piece in came) == ANSWER
        assert sum("answer" in piece for piece in came) > 1
        (context,) = [piece["context"] for piece in came if "context" in piece]
        assert format_docs(context) == payload
    assert [prompt[0].content for prompt in model.prompts] == [f"Answer from this:\n{payload}"] * 2


def test_a_document_prompt_with_source_still_works(
    retriever: APLRetriever, host: BaseRetriever, question: str, payload: str
) -> None:
    """`{source}` needs that key in every document that is handed on; it is there."""
    document_prompt = PromptTemplate.from_template("[{source}] {page_content}")
    model = model_that(ANSWER)
    retrieval_chain(retriever, model, document_prompt=document_prompt).invoke({"input": question})
    first, *others = model.prompts[0][0].content.removeprefix("Answer from this:\n").split("\n\n[")
    assert first.removesuffix("\n\n") == f"[press/purchase.txt] {payload.rstrip()}"
    assert others == [f"{document.metadata['source']}] " for document in host.documents[1:]]


def test_a_document_prompt_with_source_cites_each_line_per_document(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """With `per_document` a source stands before its own lines."""
    retriever = APLRetriever(host=host, layer=open_layer(forms=("outline",)), layout="per_document")
    model = model_that(ANSWER)
    document_prompt = PromptTemplate.from_template("[{source}] {page_content}")
    retrieval_chain(retriever, model, document_prompt=document_prompt).invoke({"input": question})
    prompt = model.prompts[0][0].content
    assert "[press/people.txt] Ingrid Solberg: leads DeltaPay" in prompt
    assert "[press/approval.txt] The Norwegian regulator: approved" in prompt


def test_the_prompt_of_an_empty_result_is_empty(
    layer: AutoPrunedLayer, make_host: type[BaseRetriever], question: str
) -> None:
    """A host that finds nothing leaves an empty context, as without apl."""
    model = model_that("I do not know.")
    retriever = APLRetriever(host=make_host(documents=[]), layer=layer)
    assert retrieval_chain(retriever, model).invoke({"input": question})["context"] == []
    assert model.prompts[0][0].content == "Answer from this:\n"


# --- an agent ---------------------------------------------------------------------------------------------------------


def agent_with(
    retriever: BaseRetriever, question: str, **tool_options: Any
) -> tuple[Runnable[dict[str, Any], dict[str, Any]], RecordingModel]:
    """An agent that looks the question up once and then answers, and its model."""
    call = ToolCall(name="press", args={"query": question}, id="call-1")
    model = model_that(AIMessage(content="", tool_calls=[call]), ANSWER)
    tool = create_retriever_tool(retriever, "press", "Searches press releases.", **tool_options)
    return create_agent(model, [tool]), model


def tool_message(messages: Sequence[BaseMessage]) -> ToolMessage:
    """The one message of the tool."""
    (message,) = [message for message in messages if isinstance(message, ToolMessage)]
    return message


def test_agents_tool_message_is_exactly_the_payload(retriever: APLRetriever, payload: str, question: str) -> None:
    """The model's second prompt has the payload as the tool's answer, nothing around it."""
    agent, model = agent_with(retriever, question)
    result = agent.invoke({"messages": [("human", question)]})
    assert result["messages"][-1].content == ANSWER
    assert len(model.prompts) == 2
    assert tool_message(model.prompts[1]).content == payload
    assert tool_message(result["messages"]).status == "success"


def test_agent_with_the_bare_host_is_the_same_agent(host: BaseRetriever, question: str) -> None:
    """Same function, the host's text."""
    agent, model = agent_with(host, question)
    assert agent.invoke({"messages": [("human", question)]})["messages"][-1].content == ANSWER
    assert tool_message(model.prompts[1]).content == format_docs(host.documents)


async def test_agent_awaited_gets_the_same_tool_message(
    retriever: APLRetriever, host: BaseRetriever, payload: str, question: str
) -> None:
    """`ainvoke` goes through the host's own async path."""
    host.asked.clear()
    agent, model = agent_with(retriever, question)
    result = await agent.ainvoke({"messages": [("human", question)]})
    assert result["messages"][-1].content == ANSWER
    assert tool_message(model.prompts[1]).content == payload
    assert [way for way, *_ in host.asked] == ["async"]


@pytest.mark.parametrize("way", ["stream", "astream"])
async def test_agent_streams_as_before(retriever: APLRetriever, payload: str, question: str, way: str) -> None:
    """Every step comes as an update: the call, the payload, the answer."""
    agent, _ = agent_with(retriever, question)
    asked: Any = {"messages": [("human", question)]}
    if way == "stream":
        updates = list(agent.stream(asked, stream_mode="updates"))
    else:
        updates = [update async for update in agent.astream(asked, stream_mode="updates")]
    steps = [message for update in updates for step in update.values() for message in step["messages"]]
    assert [type(message) for message in steps] == [AIMessage, ToolMessage, AIMessage]
    assert (steps[1].content, steps[2].content) == (payload, ANSWER)


async def test_agents_scope_and_documents_come_through_the_tool(
    retriever: APLRetriever, layer: AutoPrunedLayer, payload: str, question: str
) -> None:
    """With `content_and_artifact` the documents stand on the tool's message: scope, turn and memory from there."""
    agent, _ = agent_with(retriever, question, response_format="content_and_artifact")
    again, _ = agent_with(retriever, question, response_format="content_and_artifact")
    asked: Any = {"messages": [("human", question)]}
    for result in (agent.invoke(asked, ADA), await again.ainvoke(asked, ADA)):
        message = tool_message(result["messages"])
        turn = turn_of(message.artifact, layer)
        assert turn is not None
        assert message.content == turn.text == payload
        assert turn.scope == Scope("acme", "ada", "s1")
        assert layer.remember(turn.id, result["messages"][-1].content).status == "pending"
    assert layer.codebook.stats().turns == 2
