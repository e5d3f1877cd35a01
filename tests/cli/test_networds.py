"""Flags become a network: the same words everywhere, and no word that means nothing."""

from __future__ import annotations

import pytest

from paddock.cli import networds, parser
from paddock.errors import UserError
from paddock.model import Network, NetworkRule, Publish


def made(*words: str) -> Network:
    _, options = parser.parse(["run", *words, "--", "true"])
    return networds.network(options)


def test_no_flag_says_nothing() -> None:
    assert made() == Network()


def test_every_flag_says_what_it_means() -> None:
    network = made(
        *("--policy", "allow", "--on-deny", "ask", "--preset", "github", "--preset", "node"),
        *("--allow-host", "a.example", "--block-host", "b.example:443", "--bypass-host", "c.example"),
        *("--allow-cidr", "10.0.0.0/8", "--block-cidr", "192.168.0.0/16", "--bypass-cidr", "2001:db8::/32"),
        *("-p", "8080:80"),
    )
    assert (network.default, network.on_deny, network.presets) == ("allow", "ask", ("github", "node"))
    assert [(rule.action, rule.pattern, rule.bypass) for rule in network.rules] == [
        ("allow", "a.example", False),
        ("allow", "10.0.0.0/8", False),
        ("deny", "b.example:443", False),
        ("deny", "192.168.0.0/16", False),
        ("allow", "c.example", True),
        ("allow", "2001:db8::/32", True),
    ]
    assert network.publish == (Publish(port=8080, box_port=80),)
    assert NetworkRule(action="allow", pattern="a.example") in network.rules


def test_requests_are_said_in_one_word() -> None:
    network = made("--allow-request", "GET,POST a.example/x/**", "--block-request", "* b.example")
    assert network.rules == (
        NetworkRule(action="allow", pattern="a.example", methods=("GET", "POST"), path="/x/**"),
        NetworkRule(action="deny", pattern="b.example", methods=("*",)),
    )
    assert networds.methods(["GET", "POST,PUT"]) == ("GET", "POST", "PUT")
    with pytest.raises(UserError):
        made("--allow-request", "a.example")


@pytest.mark.parametrize(
    ("word", "published"),
    [
        ("8080:80", Publish(address="127.0.0.1", port=8080, box_port=80)),
        ("0.0.0.0:8080:80", Publish(address="0.0.0.0", port=8080, box_port=80)),
        ("[::1]:8080:80", Publish(address="::1", port=8080, box_port=80)),
    ],
)
def test_a_published_port_lies_on_the_hosts_loopback_unless_said(word: str, published: Publish) -> None:
    assert networds.publish(word) == published


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--policy", "open"), "usage"),
        (("--on-deny", "allow"), "usage"),
        (("--allow-cidr", "example.com"), "bad-cidr"),
        (("--block-cidr", "10.0.0.1/8"), "bad-cidr"),
        (("-p", "80"), "bad-port"),
        (("-p", ":80"), "bad-port"),
        (("-p", "x:80"), "bad-port"),
        (("-p", "0:80"), "bad-port"),
        (("-p", "80:65536"), "bad-port"),
        (("-p", "+80:80"), "bad-port"),
        (("-p", "²:80"), "bad-port"),
    ],
)
def test_a_word_that_means_nothing_is_refused(words: tuple[str, ...], code: str) -> None:
    with pytest.raises(UserError) as caught:
        made(*words)
    assert caught.value.code == code
