"""A small HTTP server that answers as SGLang does, or fails in a chosen way. Usage: MODE --host H --port N."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

mode = sys.argv[1]
port = int(sys.argv[sys.argv.index("--port") + 1])
served = {"scrapes": 0}
print(f"server_args={sys.argv}", flush=True)  # as SGLang does, keys and all


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def answer(self, body: object, status: int = 200) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self) -> bool:
        """Says 401 to whoever lacks the key that the command line names."""
        key = sys.argv[sys.argv.index("--api-key") + 1] if "--api-key" in sys.argv else None
        if key is None or self.headers.get("Authorization") == f"Bearer {key}" or self.path == "/ready":
            return False
        self.answer("Unauthorized", 401)
        return True

    def do_GET(self) -> None:
        if self.refuse():
            return
        if self.path == "/ready":
            self.answer({}, 404 if mode == "old" else 200)
        elif self.path == "/server_info":
            self.answer(
                {"tp_size": 1, "api_key": "hush", "internal_states": [{"env_vars": {"HF_TOKEN": "hush"}}]}
            )
        elif self.path == "/metrics":
            served["scrapes"] += 1
            others = 500 * served["scrapes"] if mode == "serves-others" else 0
            self.answer(
                f'sglang:generation_tokens_total{{rank="0"}} {others}\n'
                f'sglang:generation_tokens_total{{rank="1"}} {others}\n'
            )
        else:
            self.answer({})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.refuse():
            return
        if mode == "always-500":
            self.answer("Internal Server Error", 500)
            return
        if mode == "garbage":
            self.answer("<html>" + "[" * 5000)
            return
        if mode == "trickles":
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.2)
        if mode == "dies-under-load" and self.path == "/generate":
            print("RuntimeError: CUDA error: an illegal memory access was encountered", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if self.path == "/flush_cache" and mode == "loses-a-child":
            # As 0.5.16 does: it says so, then waits for core dumps with every socket open.
            print("SIGQUIT received. signum=None, frame=None. It usually means one child failed.", flush=True)
        if self.path == "/flush_cache":
            self.answer("flushed", 400 if mode == "never-idle" else 200)
            return
        meta = {
            "output_token_logprobs": [[-0.1, 5, None], [-0.2, 6, None]],
            "prompt_tokens": 4,
            "completion_tokens": 2,
            "cached_tokens": 0,
            "finish_reason": {"type": "length"},
        }
        self.answer({"text": " Paris.", "meta_info": meta})


if mode == "bad-flag":
    print("sglang serve: error: unrecognized arguments: --nonsense", flush=True)
    sys.exit(2)
if mode == "loses-its-port" and not Path("lost-once").exists():
    Path("lost-once").touch()
    print(
        "[Errno 98] error while attempting to bind on address ('127.0.0.1', 1): address already in use",
        flush=True,
    )
    sys.exit(1)
if mode == "floods":

    def flood() -> None:
        while True:
            print("x" * 10000, end="", flush=True)
            time.sleep(0.001)

    threading.Thread(target=flood, daemon=True).start()
if mode == "ignores-term":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(
        [sys.executable, "-c", "import signal,time;signal.signal(15,signal.SIG_IGN);time.sleep(600)"]
    )
if mode in ("silent", "busy"):
    if mode == "busy":
        threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
    time.sleep(600)
print("The server is fired up and ready to roll!", flush=True)
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
