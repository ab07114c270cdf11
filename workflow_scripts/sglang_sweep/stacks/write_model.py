"""Writes a model's folder. Run by path with a stack's interpreter, which has torch, transformers and tokenizers.

``python write_model.py RECIPE.json TEXT FOLDER``: the recipe is one entry of config/models.yaml, with ``gguf``
replaced by the path of the checkpoint. The same recipe gives the same bytes.
"""

import json
import sys
from pathlib import Path
from typing import Any

SPECIAL = ["<s>", "</s>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def write_tokenizer(text: str, vocabulary: int, folder: Path) -> None:
    """A byte-level BPE trained on ``text``, filled up to ``vocabulary`` entries.

    The filling matters: random weights emit any id, and an id without text is not streamed, so that a client
    would see fewer tokens than were made and report a wrong time per token.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # type: ignore[import-not-found,unused-ignore]

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=min(vocabulary, 1024),
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(text.splitlines(), trainer)
    model = json.loads(trained.to_str())["model"]
    entries = dict(model["vocab"])
    for number in range(len(entries), vocabulary):
        entries[f"Ġw{number:x}"] = number  # Ġ is how byte-level BPE writes a space
    tokenizer = Tokenizer(models.BPE(vocab=entries, merges=[tuple(pair) for pair in model["merges"]]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[0],
        "eos_token": SPECIAL[1],
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    _write(folder / "tokenizer_config.json", settings)


def write_shape(recipe: dict[str, Any], text: str, folder: Path) -> None:
    """config.json and tokenizer."""
    _write(folder / "config.json", recipe["config"])
    _write(
        folder / "generation_config.json",
        {key: recipe["config"][key] for key in ("bos_token_id", "eos_token_id") if key in recipe["config"]},
    )
    write_tokenizer(text, recipe["config"]["vocab_size"], folder)


def write_random(recipe: dict[str, Any], text: str, folder: Path) -> None:
    """Random weights from the recipe's seed, in the order of the model's parameters."""
    import torch  # type: ignore[import-not-found,unused-ignore]
    from transformers import AutoConfig, AutoModelForCausalLM  # type: ignore[import-not-found,unused-ignore]

    write_shape(recipe, text, folder)
    config = AutoConfig.from_pretrained(folder)
    torch.manual_seed(recipe["seed"])
    model = AutoModelForCausalLM.from_config(config)
    model.to(getattr(torch, recipe["config"].get("dtype", "float32"))).save_pretrained(folder)
    _write(folder / "config.json", recipe["config"])  # as declared, not as this transformers would write it


def write_converted(recipe: dict[str, Any], text: str, folder: Path) -> None:
    """GGUF to safetensors, dequantized, with the tokenizer that the GGUF file holds."""
    import torch  # type: ignore[import-not-found,unused-ignore]
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # type: ignore[import-not-found,unused-ignore]

    source = Path(recipe["gguf"])
    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    AutoTokenizer.from_pretrained(**where, trust_remote_code=False).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(
        **where, dtype=getattr(torch, recipe["dtype"]), quantization_config=GgufConfig(dequantize=True)
    )
    model.save_pretrained(folder)


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


WRITERS = {"shape": write_shape, "random": write_random, "wheel": write_converted}


def main() -> None:
    recipe_file, text_file, folder = map(Path, sys.argv[1:4])
    recipe = json.loads(recipe_file.read_text(encoding="utf-8"))
    WRITERS[recipe["kind"]](recipe, text_file.read_text(encoding="utf-8"), folder)


if __name__ == "__main__":
    main()
