"""Tokens by their shape and by what they are assigned to; prose about tokens is none."""

from __future__ import annotations

import json
import time

import pytest

from paddock.secrets import looks, placeholder
from paddock.secrets.services import SERVICES


@pytest.mark.parametrize("service", [one for one in SERVICES if one.shape.prefix], ids=lambda one: one.name)
def test_every_service_with_a_shape_is_known_by_it(service: object) -> None:
    assert looks.has_token(f"use {placeholder.make(service.shape)} here")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "key AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdefghijkl",
        "Authorization: Bearer 0123456789abcdef01",
        "https://user:hunter22@example.com/",
        "export DB_PASSWORD=correct1horse",
        'MY_API_KEY = "0123456789abcdef"',
        "password: s3cr3t-enough",
        '{"apiKey": "0123456789abcdef"}',
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk",
    ],
)
def test_what_is_assigned_to_a_secrets_name_is_one(text: str) -> None:
    assert looks.has_token(text)


@pytest.mark.parametrize(
    "text",
    [
        "Never print a token: tokens are secrets.",
        "Set ANTHROPIC_API_KEY=$ANTHROPIC_API_KEY first",
        'password = "${DB_PASSWORD}"',
        "Use https://example.com:8443/path and git@github.com:owner/name",
        "task-runner and risk-assessment of sk-ant",
        "The authorization: required. The secret: being kind.",
        "max_tokens: 4096",
    ],
)
def test_prose_and_variables_are_none(text: str) -> None:
    assert not looks.has_token(text)


@pytest.mark.parametrize(
    "name", ["apiKey", "GITHUB_TOKEN", "X-Auth-Token", "password", "client_secret", "authorization"]
)
def test_names_of_secrets(name: str) -> None:
    assert looks.is_secret_name(name)


@pytest.mark.parametrize("name", ["model", "max_tokens_to_sample", "theme", "tokenizer", "PATH"])
def test_other_names(name: str) -> None:
    assert not looks.is_secret_name(name)


def test_every_string_of_a_structure_is_looked_at() -> None:
    assert looks.in_values(json.loads('{"env": {"A_TOKEN": "plain-words"}}'))
    assert looks.in_values({"list": [{"x": "ghp_0123456789abcdefghij0123456789abcdef"}]})
    assert looks.in_values({"ghp_0123456789abcdefghij0123456789abcdef": 1})
    assert not looks.in_values({"model": "opus", "permissions": {"allow": ["Bash(git:*)"]}, "n": 3})


def test_a_long_text_takes_little_time() -> None:
    started = time.monotonic()
    for text in ("a" * 300_000, "a_" * 150_000, "token" * 60_000, "token: " * 40_000):
        assert not looks.has_token(text)
    assert time.monotonic() - started < 5.0


@pytest.mark.parametrize("hostile", ["token:" + " " * 500_000, "ey-" * 150_000, "-." * 250_000, "token='" * 70_000])
def test_a_text_that_is_made_to_be_slow_is_not(hostile: str) -> None:
    """Whoever searches keeps the daemon waiting: half a megabyte of these took up to an hour."""
    before_s = time.process_time()
    assert not looks.has_token(hostile)
    assert time.process_time() - before_s < 5
    assert looks.has_token(f"{hostile}\ntoken: 0123456789abcdef"), "the oracle: it is searched to its end"


def test_a_token_in_wide_characters_is_one() -> None:
    token = "ghp_0123456789abcdefghij0123456789abcdef"
    assert looks.has_token(token.encode("utf-16").decode("utf-8", "replace"))
    assert not looks.has_token("just text".encode("utf-16").decode("utf-8", "replace"))
