"""A small HTTP server that answers as SGLang does, or fails in a chosen way. Usage: MODE --host H --port N."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

mode = sys.argv[1]
port = int(sys.argv[sys.argv.index("--port") + 1])


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def answer(self, body: object, status: int = 200) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.path == "/ready":
            self.answer({}, 404 if mode == "old" else 200)
        elif self.path == "/server_info":
            self.answer(
                {"tp_size": 1, "api_key": "hush", "internal_states": [{"env_vars": {"HF_TOKEN": "hush"}}]}
            )
        elif self.path == "/metrics":
            self.answer("sglang:num_running_reqs 0.0\n")
        else:
            self.answer({})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
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
