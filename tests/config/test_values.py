"""Durations, sizes, addresses and references: text in, numbers out, and a sentence for what is neither."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import duration_seconds, duration_text, listen_address, size_bytes
from agent.config.document import interpolate
from agent.config.quantities import size_text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20ms", 0.020),
        ("2.5s", 2.5),
        ("5", 5.0),
        ("0.25", 0.25),
        ("1e-3", 0.001),
        ("5m", 300.0),
        ("12h", 43200.0),
        ("3d", 259200.0),
        (" 7 d ", 604800.0),
    ],
)
def test_a_duration_is_seconds_with_or_without_a_unit(text, seconds):
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5 parsecs", "-5s", "5S", "1h30m", "nan", "inf", "s", "1e999", "0x10", "٣s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError):
        duration_seconds(text)


@given(st.floats(min_value=0, max_value=1e9, allow_nan=False))
def test_a_duration_written_and_read_again_is_the_same(seconds):
    assert duration_seconds(duration_text(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("1024", 1024), ("500kB", 500_000), ("64MiB", 64 << 20), ("2GB", 2 * 10**9), ("1.5KiB", 1536)]
)
def test_a_size_is_bytes_with_or_without_a_unit(text, size):
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "12 apples", "-1", "5m", "1e400"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError):
        size_bytes(text)


@given(st.integers(min_value=0, max_value=1 << 50))
def test_a_size_written_and_read_again_is_the_same(size):
    assert size_bytes(size_text(size)) == size


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9838", ("127.0.0.1", 9838)), (":9838", ("", 9838)), ("[::1]:0", ("::1", 0)), ("host:1", ("host", 1))],
)
def test_an_address_to_listen_at_has_a_host_and_a_port(text, address):
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["9838", "host", "host:", "host:99999", "::1:9838", "a b:1", "http://host:1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError):
        listen_address(text)


ENVIRON = {"NAME": "value", "EMPTY": "", "DOLLARS": "$$ ${NAME}"}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain", "plain"),
        ("a ${NAME} b", "a value b"),
        ("${NAME}${NAME}", "valuevalue"),
        ("${NOT_SET:-default}", "default"),
        ("${NOT_SET:-}", ""),
        ("${EMPTY:-default}", "default"),
        ("${EMPTY}", ""),
        ("${NAME:-default}", "value"),
        ("$$", "$"),
        ("$${NAME}", "${NAME}"),
        ("price $5, $NAME", "price $5, $NAME"),
        ("${DOLLARS}", "$$ ${NAME}"),  # what is put in is not looked at again
    ],
)
def test_references_are_replaced_inside_a_value(text, result):
    assert interpolate(text, ENVIRON) == result


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("${NOT_SET}", "NOT_SET is not set"),
        ("${}", "not a variable"),
        ("${a b}", "not a variable"),
        ("${", "not a variable"),
    ],
)
def test_a_reference_that_cannot_be_replaced_is_an_error_that_names_it(text, says):
    with pytest.raises(ValueError, match=says):
        interpolate(text, ENVIRON)
