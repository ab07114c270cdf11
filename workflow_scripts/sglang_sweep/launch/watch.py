"""What the GPUs do while a window runs: before and after it they idle, and a slowdown in its middle leaves no trace."""

from collections.abc import Callable, Sequence
from threading import Event, Thread
from types import TracebackType
from typing import Any

SETTLE_S = 0.3
"""The first requests are then under way; many windows are not much longer."""

EVERY_S = 2.0
"""As often as monitors usually ask; one sample of a GPU costs about a millisecond of one processor."""


class GpuWatch:
    """Samples the GPUs in a thread of its own between ``with`` and its end.

    ``sample_clocks`` as in ``Instruments``. A sample that fails ends the watch, not the window.
    """

    def __init__(
        self,
        sample_clocks: Callable[[], list[dict[str, Any]]],
        settle_s: float = SETTLE_S,
        every_s: float = EVERY_S,
    ) -> None:
        self.sample_clocks, self.settle_s, self.every_s = sample_clocks, settle_s, every_s
        self._samples: list[list[dict[str, Any]]] = []
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "GpuWatch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = self.settle_s
        while not self._over.wait(pause):
            self._samples.append(self.sample_clocks())
            pause = self.every_s

    def summary(self) -> list[dict[str, Any]]:
        """Per GPU: samples, least SM clock (MHz), greatest temperature (degrees Celsius), mean power (W), all throttle
        reasons seen. Empty where nothing was sampled."""
        by_gpu: dict[int, list[dict[str, Any]]] = {}
        for sample in self._samples:
            for gpu in sample:
                by_gpu.setdefault(gpu["index"], []).append(gpu)
        return [
            {
                "index": index,
                "samples": len(seen),
                "sm_mhz_min": min(_known(seen, "sm_mhz"), default=None),
                "temperature_c_max": max(_known(seen, "temperature_c"), default=None),
                "power_w_mean": _mean(_known(seen, "power_w")),
                "throttle_reasons": sorted({r for gpu in seen for r in gpu.get("throttle_reasons") or []}),
            }
            for index, seen in sorted(by_gpu.items())
        ]


def _known(seen: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [gpu[name] for gpu in seen if gpu.get(name) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 1) if values else None
