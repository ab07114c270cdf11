"""Stands in for transformers in unit tests."""


class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, _: str) -> "AutoTokenizer":
        return cls()

    def encode(self, text: str) -> list[int]:
        return [0] * len(text.split())
