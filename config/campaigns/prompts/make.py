"""Writes the shipped loads again, the same from the same seed: ``python config/campaigns/prompts/make.py``.

``lengths.jsonl``: 256 questions and answers whose lengths are those of chats (log-normal, median 60 and 120 words).
``agent.json``: an agent's conversations: a long instruction, then turns with what its tools said.
``talk.json``: conversations of three short turns.
"""

import json
import random
from pathlib import Path

SENTENCE = (
    "the server answers a request with tokens while the scheduler waits for memory and a queue grows under load when "
    "prompts share their first part so the cache keeps blocks that others may read again before new work is begun"
)
WORDS = SENTENCE.split()


def text(draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(WORDS, k=max(2, words)))


def length(draw: random.Random, median: int) -> int:
    return min(10 * median, round(median * draw.lognormvariate(0, 0.7)))


def turn(draw: random.Random, words: int, before: list[dict[str, str]]) -> dict[str, object]:
    messages = [*before, {"role": "user", "content": text(draw, words)}]
    return {"messages": messages, "prompt_tokens": words}


def main() -> None:
    here, draw = Path(__file__).parent, random.Random(18)
    chats = [
        {
            "conversations": [
                {"role": "user", "content": text(draw, length(draw, 60))},
                {"role": "assistant", "content": text(draw, length(draw, 120))},
            ]
        }
        for _ in range(256)
    ]
    (here / "lengths.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in chats), encoding="utf-8")
    system = [{"role": "system", "content": text(draw, 150)}]
    agent = [[turn(draw, 30, system), *(turn(draw, 20, []) for _ in range(3))] for _ in range(8)]
    talk = [[turn(draw, 12, []) for _ in range(3)] for _ in range(8)]
    for name, conversations in (("agent", agent), ("talk", talk)):
        data = {"metadata": {"made_by": "make.py"}, "conversations": conversations}
        (here / f"{name}.json").write_text(json.dumps(data) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
