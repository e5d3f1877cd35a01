"""What a scripted model says in the words of each service: one command for the agent's shell, then ANSWER."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER: Final = "The scripted model has seen 4217 lambs."
COMMAND: Final = "echo kept > proof.txt"
INPUT: Final = 2000  # tokens of each answer: of them CACHED were read from a cache
CACHED: Final = 512
OUTPUT: Final = 2000


def _event(value: dict[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value)}\n\n".encode()


class Answer:
    """To one request. `text` is empty where the agent is to use its shell."""

    def __init__(self, request: dict[str, Any], model: str = "", *, stream: bool = True) -> None:
        self.request = request
        self.model: str = model or request["model"]
        self.streamed: bool = stream and request.get("stream", True)
        self.tool = self._shell()
        self.text = "" if self.tool and not self._has_run() else ANSWER

    def _shell(self) -> str:
        """The tool that runs commands, if the agent offers one: some requests are for titles and the like."""
        known = {"Bash", "exec_command", "shell_command", "shell", "run_shell_command"}
        return next((name for name in self._tools() if name in known), "")

    def _tools(self) -> list[str]:
        return [tool.get("name", "") for tool in self.request.get("tools", ())]

    def _has_run(self) -> bool:
        raise NotImplementedError

    def whole(self) -> dict[str, Any]:
        raise NotImplementedError

    def events(self) -> Iterator[bytes]:
        raise NotImplementedError


class Anthropic(Answer):
    """https://platform.claude.com/docs/en/api/messages-streaming"""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request, stream=bool(request.get("stream")))

    def _has_run(self) -> bool:
        last = self.request["messages"][-1]["content"]
        return isinstance(last, list) and any(part["type"] == "tool_result" for part in last)

    def _block(self) -> dict[str, Any]:
        if self.text:
            return {"type": "text", "text": self.text}
        words = {"command": COMMAND, "description": "Keep a proof"}
        return {"type": "tool_use", "id": "toolu_01", "name": self.tool, "input": words}

    def whole(self) -> dict[str, Any]:
        return {
            "id": "msg_01",
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


class OpenAI(Answer):
    """https://platform.openai.com/docs/api-reference/responses-streaming"""

    def _has_run(self) -> bool:
        return any(item.get("type") == "function_call_output" for item in self.request["input"])

    def _item(self) -> dict[str, Any]:
        if self.text:
            part = {"type": "output_text", "text": self.text, "annotations": []}
            return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
        if self.tool == "shell":
            words: dict[str, Any] = {"command": ["bash", "-c", COMMAND]}
        else:
            words = {"cmd" if self.tool == "exec_command" else "command": COMMAND}
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": self.tool}
        return {**call, "arguments": json.dumps(words), "status": "completed"}

    def whole(self) -> dict[str, Any]:
        usage = {
            "input_tokens": INPUT,
            "input_tokens_details": {"cached_tokens": CACHED},
            "output_tokens": OUTPUT,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT + OUTPUT,
        }
        head = {"id": "resp_1", "object": "response", "status": "completed", "model": self.model}
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

    def _has_run(self) -> bool:
        parts = [part for content in self.request["contents"] for part in content.get("parts", ())]
        return any("functionResponse" in part for part in parts)

    def whole(self) -> dict[str, Any]:
        part: dict[str, Any] = {"text": self.text}
        if not self.text:
            part = {"functionCall": {"name": self.tool, "args": {"command": COMMAND, "description": "Keep a proof"}}}
        content = {"role": "model", "parts": [part]}
        usage = {
            "promptTokenCount": INPUT,
            "cachedContentTokenCount": CACHED,
            "candidatesTokenCount": OUTPUT,
            "totalTokenCount": INPUT + OUTPUT,
        }
        found = {"content": content, "finishReason": "STOP", "index": 0}
        return {"candidates": [found], "usageMetadata": usage, "modelVersion": self.model}

    def events(self) -> Iterator[bytes]:
        yield _event(self.whole())
