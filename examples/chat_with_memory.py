"""A chat that remembers, without a language model.

    python examples/chat_with_memory.py           # type lines; an empty line or Ctrl-D ends the session
    python examples/chat_with_memory.py --demo    # two prepared sessions

What you say is stored as messages, and the facts in it as memories. A question is answered from memories and messages,
of this session or an earlier one. A real assistant sends `window.as_openai()` or `window.as_anthropic()` to a model
instead: `answer` is the only function to change.
"""

import argparse
import sys
from collections.abc import Iterable

from everhold import Everhold, View

STORE = "chat.db"
BUDGET = 2000  # tokens of a prompt

MONDAY = ("Hello! I'm Alice.", "I live in Lisbon.", "My sister Rosa repairs violins.", "I am allergic to peanuts.")
TUESDAY = ("Good morning!", "Where do I live?", "What does Rosa do?", "I moved to Porto.", "Where do I live now?")


def answer(chat: View, text: str, learned: list[str]) -> str:
    """Return what the assistant says; here without a model."""
    window = chat.window(text, budget=BUDGET, system="You are a helpful assistant.")
    prompt = window.as_openai()  # what a model would get: recent turns, a summary, what is recalled
    note = f"[a prompt of {len(prompt)} messages, {window.tokens} tokens]"
    if text.rstrip().endswith("?"):
        return f"{find_answer(chat, text) or 'I do not know that yet.'} {note}"
    return f"I will remember: {' '.join(learned)} {note}" if learned else f"I see. {note}"


def find_answer(chat: View, question: str) -> str | None:
    """Return the memory that answers a question best, or else what the user said about it in any session."""
    for hit in chat.recall(question, k=1):
        return hit.text
    for message_hit in chat.search_messages(question, k=5, minimum=0.2, neighbours=0, where={"role": "user"}):
        if not str(message_hit.message.text).endswith("?"):
            return f"You told me: {message_hit.message.text}"
    return None


def hold_session(engine: Everhold, session: str, lines: Iterable[str]) -> None:
    """Let one user talk in one session, and end it with a summary."""
    chat = engine.scope(user="alice", agent="assistant", session=session)
    chat.open_session(title=f"Chat of {session}")
    for text in lines:
        added = chat.add([{"role": "user", "content": text, "name": "Alice"}])
        reply = answer(chat, text, [memory.text for memory in added.memories])
        chat.say(reply.partition(" [")[0], role="assistant")
        print(f"you:       {text}\nassistant: {reply}")
    if chat.messages(limit=1):
        chat.end_session(summary=chat.summary(only="session", budget=100).text)


def read_lines() -> Iterable[str]:
    """Yield what is typed, until an empty line."""
    print("Tell me something, or ask. An empty line ends the session.", file=sys.stderr)
    for line in sys.stdin:
        if not line.strip():
            return
        yield line.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", action="store_true", help="hold two prepared sessions")
    parser.add_argument("--store", default=STORE, help=f"where memories are kept; by default {STORE}")
    options = parser.parse_args()
    with Everhold.open(options.store) as engine:
        if options.demo:
            hold_session(engine, "monday", MONDAY)
            hold_session(engine, "tuesday", TUESDAY)
        else:
            count = len(engine.scope(user="alice").sessions(limit=1000))
            hold_session(engine, f"session-{count + 1}", read_lines())
        for session in engine.scope(user="alice").sessions(limit=2):
            print(f"\nsummary of {session.id}:\n{session.summary}")


if __name__ == "__main__":
    main()
