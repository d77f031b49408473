"""Addresses as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_server.addresses import Address

_HOSTS = st.one_of(
    st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
)


@given(host=_HOSTS, port=st.integers(min_value=0, max_value=65535))
def test_parse_returns_what_was_written_for_any_host(host: str, port: int) -> None:
    assert Address.parse(str(Address(host, port))) == Address(host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7400",
        ":7400",
        "host",
        "host:",
        "host:x",
        "host:70000",
        "::1:7400",
        "[::1]",
        "[host]:1",
        "a b:1",
        "h:1/x",
        "h:-1",
    ],
)
def test_parse_refuses_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="expected host:port"):
        Address.parse(text)


@pytest.mark.parametrize(
    ("listen", "connect"),
    [("0.0.0.0:7400", "127.0.0.1:7400"), ("[::]:7400", "[::1]:7400"), ("10.0.0.1:7400", "10.0.0.1:7400")],
)
def test_to_connect_from_here_is_loopback_for_every_interface(listen: str, connect: str) -> None:
    assert str(Address.parse(listen).to_connect_from_here()) == connect
