"""SGLang's server without a model: it takes any flag, and answers and logs as recorded on a processor.

A setting that the variable STAND_IN_MOVES names moves by itself, and more than one rank dies as recorded.
"""

import gzip
import json
import os
import shutil
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

RECORDINGS = Path(__file__).parents[3] / "recordings"
CPU = RECORDINGS / "cpu-sglang-0.5.23"
TRACE = RECORDINGS / "h200x2-sglang-0.5.16" / "eagle3-random-draft" / "decode-TP-0.trace.json.gz"


def flags_of(words: list[str]) -> dict[str, object]:
    """``--a 1 --b`` as ``{"a": 1, "b": True}``."""
    flags: dict[str, object] = {}
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            flags[word[2:]] = True if following.startswith("--") else yaml.safe_load(following)
    if moved := os.environ.get("STAND_IN_MOVES"):
        flags[moved] = 512
    return {name.replace("-", "_"): value for name, value in flags.items()}


FLAGS = flags_of(sys.argv[1:])
INFO = json.loads((CPU / "cpu-healthy" / "server_info_after.json").read_text())
INFO |= FLAGS
INFO["internal_states"] = [{**INFO["internal_states"][0], **FLAGS, "env_vars": {"HF_TOKEN": "hush"}}]


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def answer(self, body: object) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        known = {"/server_info": INFO, "/metrics": "sglang:num_running_reqs 0.0\n"}
        self.answer(known.get(self.path, {}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        if self.path == "/start_profile":
            shutil.copy(TRACE, Path(body["output_dir"]) / f"{body['profile_id']}-TP-0-DECODE.trace.json.gz")
            empty = Path(body["output_dir"]) / f"{body['profile_id']}-TP-0-EXTEND.trace.json.gz"
            empty.write_bytes(gzip.compress(b'{"traceEvents": []}'))
        tokens = [[-0.5, 500 + place, None] for place in range(24)]
        meta = {"output_token_logprobs": tokens, "finish_reason": {"type": "length"}, "cached_tokens": 0}
        meta |= {"prompt_tokens": len(str(body.get("text")).split()), "completion_tokens": 24}
        self.answer({"text": " outemporary", "meta_info": meta})


case = "cpu-healthy" if FLAGS.get("tp_size", 1) == 1 else "cpu-tp2"
print(gzip.decompress((CPU / case / "server.log.gz").read_bytes()).decode(), flush=True)
if case == "cpu-tp2":
    sys.exit(1)
time.sleep(float(os.environ.get("FAKE_START_S", "0")))
ThreadingHTTPServer(("127.0.0.1", int(str(FLAGS["port"]))), Handler).serve_forever()
