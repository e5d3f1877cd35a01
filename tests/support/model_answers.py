"""What a scripted model says in the words of each service, and what of a conversation a request brings."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, Final

from tests.support.model_script import ANSWER, COMMAND, DEFAULT, Script, act

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ANSWER", "CACHED", "COMMAND", "INPUT", "OUTPUT", "Answer", "Anthropic", "Chat", "Gemini", "OpenAI"]
INPUT: Final = 2000  # tokens of each answer: of them CACHED were read from a cache
CACHED: Final = 512
OUTPUT: Final = 2000


def _event(value: dict[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value)}\n\n".encode()


def _texts(content: Any) -> list[str]:
    """Of a message, however the service has its parts."""
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or () if isinstance(part, dict) and isinstance(part.get("text"), str)]


def _count(content: Any, kind: str) -> int:
    return sum(part["type"] == kind for part in content) if isinstance(content, list) else 0


def _responses(turn: dict[str, Any]) -> int:
    return sum("functionResponse" in part for part in turn.get("parts", ()))


class Answer:
    """To one request. `text` is empty where the agent is to use a tool, which `call` has with its words."""

    def __init__(
        self, request: dict[str, Any], model: str = "", *, stream: bool = True, script: Script = DEFAULT
    ) -> None:
        self.request = request
        self.model: str = model or request["model"]
        self._token = secrets.token_hex(8)  # Claude Code drops a call whose id it has seen
        self.streamed: bool = stream and request.get("stream", True)
        found = act(script, self._done(), self._tools())
        self.text = found if isinstance(found, str) else ""
        self.call: tuple[str, Any] = ("", {}) if isinstance(found, str) else found
        self.final = bool(self.text) and self.text == script[-1][1]

    def _tools(self) -> list[str]:
        return [tool.get("name", "") for tool in self.request.get("tools") or ()]

    def _done(self) -> int:
        """How many tools were used since a person spoke last."""
        count = 0
        for role, results, _ in reversed(self._turns()):
            count += results
            if role == "user" and not results:
                break
        return count

    def said(self, role: str) -> list[str]:
        """By whom, in the whole conversation that came with the request."""
        return [text for spoken, _, texts in self._turns() if spoken == role for text in texts]

    def _turns(self) -> list[tuple[str, int, list[str]]]:
        """Role (user or assistant), results of tools, texts."""
        raise NotImplementedError

    def whole(self) -> dict[str, Any]:
        raise NotImplementedError

    def events(self) -> Iterator[bytes]:
        raise NotImplementedError


class Anthropic(Answer):
    """https://platform.claude.com/docs/en/api/messages-streaming"""

    def __init__(self, request: dict[str, Any], *, script: Script = DEFAULT) -> None:
        super().__init__(request, stream=bool(request.get("stream")), script=script)

    def _turns(self) -> list[tuple[str, int, list[str]]]:
        return [
            (message["role"], _count(message["content"], "tool_result"), _texts(message["content"]))
            for message in self.request["messages"]
        ]

    def _block(self) -> dict[str, Any]:
        if self.text:
            return {"type": "text", "text": self.text}
        tool, words = self.call
        return {"type": "tool_use", "id": f"toolu_{self._token}", "name": tool, "input": words}

    def whole(self) -> dict[str, Any]:
        return {
            "id": f"msg_{self._token}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [self._block()],
            "stop_reason": "end_turn" if self.text else "tool_use",
            "stop_sequence": None,
            "usage": self._usage(OUTPUT),
        }

    def _usage(self, output: int) -> dict[str, int]:
        cache = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": CACHED}
        return {"input_tokens": INPUT - CACHED, **cache, "output_tokens": output}

    def events(self) -> Iterator[bytes]:
        message, block = self.whole(), self._block()
        start = {**message, "content": [], "stop_reason": None, "usage": self._usage(1)}
        empty = {**block, "text": ""} if self.text else {**block, "input": {}}
        delta = {"type": "text_delta", "text": self.text}
        if not self.text:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        for event in (
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "ping"},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": OUTPUT}},
            {"type": "message_stop"},
        ):
            yield _event(event, str(event["type"]))


class Chat(Answer):
    """https://platform.openai.com/docs/api-reference/chat-streaming"""

    def _tools(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.request.get("tools") or () if "function" in tool]

    def _turns(self) -> list[tuple[str, int, list[str]]]:
        return [
            (message["role"], int(message["role"] == "tool"), _texts(message.get("content")))
            for message in self.request["messages"]
        ]

    def _message(self) -> dict[str, Any]:
        if self.text:
            return {"role": "assistant", "content": self.text}
        tool, words = self.call
        call = {"id": f"call_{self._token}", "type": "function", "function": {"name": tool}}
        call["function"]["arguments"] = json.dumps(words)  # type: ignore[index]
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    def _usage(self) -> dict[str, Any]:
        count = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
        return {**count, "prompt_tokens_details": {"cached_tokens": CACHED}}

    def _reason(self) -> str:
        return "stop" if self.text else "tool_calls"

    def whole(self) -> dict[str, Any]:
        choice = {"index": 0, "message": self._message(), "finish_reason": self._reason()}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{self._token}", "object": kind, "created": 1700000000, "model": self.model}

    def events(self) -> Iterator[bytes]:
        delta = self._message()
        for number, call in enumerate(delta.get("tool_calls", ())):
            call["index"] = number
        head = self._head("chat.completion.chunk")
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": self._reason()}]})
        yield _event({**head, "choices": [], "usage": self._usage()})
        yield b"data: [DONE]\n\n"


class OpenAI(Answer):
    """https://platform.openai.com/docs/api-reference/responses-streaming"""

    def _tools(self) -> list[str]:
        """Those of newer models come with the conversation, in a namespace."""
        added = [item for item in self.request["input"] if item.get("type") == "additional_tools"]
        groups = [group for item in added for group in item["tools"]]
        return super()._tools() + [tool["name"] for group in groups for tool in group.get("tools", (group,))]

    def _turns(self) -> list[tuple[str, int, list[str]]]:
        return [
            (item.get("role", ""), int(str(item.get("type")).endswith("_call_output")), _texts(item.get("content")))
            for item in self.request["input"]
        ]

    def _item(self) -> dict[str, Any]:
        if self.text:
            part = {"type": "output_text", "text": self.text, "annotations": []}
            return {
                "type": "message",
                "id": f"msg_{self._token}",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        tool, words = self.call
        call = {"id": f"fc_{self._token}", "call_id": f"call_{self._token}", "name": tool, "status": "completed"}
        if isinstance(words, str):
            place = {"namespace": "functions"} if tool == "exec" else {}
            return {"type": "custom_tool_call", **call, **place, "input": words}
        return {"type": "function_call", **call, "arguments": json.dumps(words)}

    def whole(self) -> dict[str, Any]:
        usage = {
            "input_tokens": INPUT,
            "input_tokens_details": {"cached_tokens": CACHED},
            "output_tokens": OUTPUT,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT + OUTPUT,
        }
        head = {"id": f"resp_{self._token}", "object": "response", "status": "completed", "model": self.model}
        return {**head, "output": [self._item()], "usage": usage}

    def events(self) -> Iterator[bytes]:
        return (_event(event, event["type"]) for event in self.messages())

    def messages(self) -> Iterator[dict[str, Any]]:
        """The events of a stream, or of a websocket; there a client may only say what it is going to ask."""
        item = self._item()
        begun = {**self.whole(), "status": "in_progress", "output": [], "usage": None}
        told: list[dict[str, Any]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
        ]
        if self.request.get("generate") is False:
            yield from (told[0], {"type": "response.completed", "response": {**begun, "status": "completed"}})
            return
        if self.text:
            place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            told.append({"type": "response.output_text.delta", **place, "delta": self.text})
        told += [
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": self.whole()},
        ]
        for number, event in enumerate(told):
            yield {**event, "sequence_number": number}


class Gemini(Answer):
    """https://ai.google.dev/api/generate-content"""

    def _tools(self) -> list[str]:
        groups = self.request.get("tools", ())
        return [tool["name"] for group in groups for tool in group.get("functionDeclarations", ())]

    def _turns(self) -> list[tuple[str, int, list[str]]]:
        return [
            ("assistant" if turn.get("role") == "model" else "user", _responses(turn), _texts(turn.get("parts")))
            for turn in self.request["contents"]
        ]

    def whole(self) -> dict[str, Any]:
        part: dict[str, Any] = {"text": self._shaped() or self.text}
        if not self.text:
            tool, words = self.call
            part = {"functionCall": {"name": tool, "args": words}}
        content = {"role": "model", "parts": [part]}
        usage = {
            "promptTokenCount": INPUT,
            "cachedContentTokenCount": CACHED,
            "candidatesTokenCount": OUTPUT,
            "totalTokenCount": INPUT + OUTPUT,
        }
        found = {"content": content, "finishReason": "STOP", "index": 0}
        return {"candidates": [found], "usageMetadata": usage, "modelVersion": self.model}

    def _shaped(self) -> str:
        """What the agent asks itself, such as which model to take, has to come in its shape."""
        schema = self.request.get("generationConfig", {}).get("responseJsonSchema")
        if not schema:
            return ""
        kinds = {"STRING": "so it is", "INTEGER": 1, "NUMBER": 1, "BOOLEAN": True}
        properties = schema.get("properties", {}).items()
        return json.dumps({name: kinds.get(str(kind.get("type")).upper()) for name, kind in properties})

    def events(self) -> Iterator[bytes]:
        yield _event(self.whole())
