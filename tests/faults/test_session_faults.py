"""No message is lost while Redis is killed: a short form of `python -m benchmarks.session_faults`."""

import pytest

from benchmarks import session_faults

pytestmark = pytest.mark.crash


def test_every_acknowledged_message_is_in_its_session_once_and_in_order() -> None:
    outcome = session_faults.run("sqlite", sessions=8, messages=40)
    assert not outcome.wrong
    assert outcome.count == 320
    assert outcome.kills > 0
