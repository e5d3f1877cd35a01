"""What an answer says it cost, in tokens: Anthropic messages, OpenAI chat and responses, Gemini, as JSON or streamed.

One table for all of them: their places do not collide, and where two name one thing differently the arithmetic below
knows which is part of which. Counts in a stream are totals so far, so the largest counts. An answer that ends before
its totals came, or that cannot be read, is estimated from the bytes that passed and the time it took, never at less
than it admitted; one that goes on where nobody sees it, at the most that a model says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from paddock.limits import METER_ANSWER_TOKENS_MAX, METER_TOKENS_MAX
from paddock.metering.decoding import Decoder
from paddock.metering.events import Events
from paddock.metering.scanner import Scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.metering.scanner import Path

_MODEL = re.compile(rb"[A-Za-z0-9._:/@-]{1,128}")
_TEXT_BYTES_PER_TOKEN = 3  # English has some 4 a token, code and other scripts fewer
_REQUEST_BYTES_PER_TOKEN = 4
_TOKENS_PER_S = 100  # that a model thinks without showing it
_EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one request. Each is counted once: `input` is what was neither read from a cache nor written to one."""

    model: str = ""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_long: int = 0  # kept for an hour, which is dearer
    estimated: bool = False

    @property
    def tokens(self) -> int:
        return self.prompt + self.output

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_write + self.cache_write_long


def _places() -> dict[Path, str]:
    counts = {
        b"input_tokens": "input",
        b"prompt_tokens": "input",
        b"output_tokens": "output",
        b"completion_tokens": "output",
        b"total_tokens": "total",
        b"cache_read_input_tokens": "cache_read",
        b"cache_creation_input_tokens": "cache_write",
        b"prompt_cache_hit_tokens": "cached",
    }
    deeper = {
        (b"cache_creation", b"ephemeral_1h_input_tokens"): "cache_write_long",
        (b"input_tokens_details", b"cached_tokens"): "cached",
        (b"prompt_tokens_details", b"cached_tokens"): "cached",
    }
    gemini = {
        b"promptTokenCount": "input",
        b"toolUsePromptTokenCount": "input_more",
        b"candidatesTokenCount": "output",
        b"thoughtsTokenCount": "output_more",
        b"cachedContentTokenCount": "cached",
    }
    found: dict[Path, str] = {}
    for above in ((), (b"message",), (b"response",)):  # an answer, or an event of a stream that has it
        found |= {(*above, b"usage", key): name for key, name in counts.items()}
        found |= {(*above, b"usage", *keys): name for keys, name in deeper.items()}
    for above in ((), (b"",)):  # one answer, or a list of its parts
        found |= {(*above, b"usageMetadata", key): name for key, name in gemini.items()}
    return found


_PLACES = _places()
_MODELS = {(b"model",), (b"message", b"model"), (b"response", b"model"), (b"modelVersion",), (b"", b"modelVersion")}
_LAST = {  # what comes with the totals: before it they are not final
    (b"usage", b"output_tokens"),
    (b"usage", b"completion_tokens"),
    (b"usage", b"total_tokens"),
    (b"response", b"usage", b"output_tokens"),
    (b"candidates", b"", b"finishReason"),
    (b"", b"candidates", b"", b"finishReason"),
}
_BEHIND = {  # words of an answer that is made when this one has ended
    (b"status",): {b"queued", b"in_progress"},
    (b"response", b"status"): {b"queued"},
}
_DEARER = {  # words that mean another price
    (b"service_tier",): {b"priority"},
    (b"response", b"service_tier"): {b"priority"},
    (b"usage", b"speed"): {b"fast"},
    (b"message", b"usage", b"speed"): {b"fast"},
}
# Where models talk, for estimates.
_TALK = {b"text", b"thinking", b"partial_json", b"content", b"delta", b"arguments", b"reasoning_content", b"reasoning"}


class Reader:
    """Reads one answer. It never raises for what the answer is, and keeps some hundred bytes of it."""

    def __init__(self, content_type: str = "application/json", encoding: str = "", model: str = "") -> None:
        self._model = model
        self._variant = ""
        self._counts: dict[str, int] = {}
        self._last = False
        self._behind = False
        self._talk_bytes = 0
        self._body_bytes = 0
        self._decoder = Decoder(encoding)
        scanner = Scanner(self)
        self._body = Events(scanner) if content_type.lower().startswith(_EVENTS) else scanner

    def feed(self, data: bytes) -> None:
        self._body_bytes += len(data)
        for piece in self._decoder.feed(data):
            self._body.feed(piece)

    def number(self, path: Path, value: int) -> None:
        if name := _PLACES.get(path):
            self._counts[name] = max(self._counts.get(name, 0), min(value, METER_TOKENS_MAX))
            self._last |= path in _LAST

    def string(self, path: Path, value: bytes, length: int) -> None:
        if not path:
            return
        if path in _MODELS and _MODEL.fullmatch(value):
            self._model = value.decode("ascii")
        elif path in _LAST:
            self._last = True
        elif value in _DEARER.get(path, ()):
            self._variant = f":{value.decode('ascii')}"
        elif value in _BEHIND.get(path, ()):
            self._behind = True
        elif path[-1] in _TALK or (path[-1] == b"" and len(path) > 1 and path[-2] in _TALK):
            self._talk_bytes += length

    def so_far(self, request_bytes: int = 0, seconds: float = 0.0) -> Usage:
        """What is known now, or estimated: while it goes on, or when it was cut. `seconds`: since it was asked for."""
        told = self._told()
        if self._last and self._decoder.readable and told.tokens:
            return told
        heard = self._talk_bytes // _TEXT_BYTES_PER_TOKEN if self._decoder.readable else self._body_bytes
        unseen = METER_ANSWER_TOKENS_MAX if self._behind else int(seconds * _TOKENS_PER_S)
        guess = min(-(-request_bytes // _REQUEST_BYTES_PER_TOKEN), METER_TOKENS_MAX)
        return Usage(
            model=told.model,
            input=told.input if told.prompt else guess,
            output=max(told.output, min(max(heard, unseen), METER_TOKENS_MAX)),
            cache_read=told.cache_read,
            cache_write=told.cache_write,
            cache_write_long=told.cache_write_long,
            estimated=True,
        )

    def _told(self) -> Usage:
        counts = self._counts.get
        prompt = counts("input", 0) + counts("input_more", 0)
        output = counts("output", 0) + counts("output_more", 0)
        cached = min(counts("cached", 0), prompt)
        long = min(counts("cache_write_long", 0), counts("cache_write", 0))
        return Usage(
            model=self._model + self._variant,
            input=prompt - cached,
            output=max(output, counts("total", 0) - prompt),  # some leave what was thought out of the output
            cache_read=counts("cache_read", 0) + cached,
            cache_write=counts("cache_write", 0) - long,
            cache_write_long=long,
        )
