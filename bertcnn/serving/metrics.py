"""The service's counters, in the format of Prometheus."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_TEXTS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 128)


class Metrics:
    """The counters of one process; thread-safe. `waiting` returns the number of waiting texts."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "bertcnn_requests",
            "Requests, by route and status.",
            ("route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "bertcnn_request_seconds",
            "Seconds from a request to its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._queue_seconds = Histogram(
            "bertcnn_queue_seconds",
            "Seconds that texts waited.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._batch_texts = Histogram(
            "bertcnn_batch_texts",
            "Texts computed together.",
            buckets=_TEXTS,
            registry=self._registry,
        )
        self._texts = Counter(
            "bertcnn_texts",
            "Texts answered, by model and decision.",
            ("model", "decision"),
            registry=self._registry,
        )
        self._models = Gauge(
            "bertcnn_model_info",
            "The models, each 1.",
            ("model", "version", "engine"),
            registry=self._registry,
        )
        queue = Gauge("bertcnn_queue_texts", "Texts that wait.", registry=self._registry)
        queue.set_function(waiting)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered or refused request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def batch(self, texts: int, waits: Sequence[float]) -> None:
        """Count a batch, and its requests' waiting times in seconds."""
        self._batch_texts.observe(texts)
        for seconds in waits:
            self._queue_seconds.observe(seconds)

    def answered(self, model: str, decisions: Sequence[str]) -> None:
        """Count decisions."""
        for decision, number in Counts(decisions).items():
            self._texts.labels(model, decision).inc(number)

    def model(self, name: str, version: str, engine: str, previous: str | None) -> None:
        """Record that a model serves, in place of its previous version."""
        if previous is not None and previous != version:
            self._models.remove_by_labels({"model": name, "version": previous})
        self._models.labels(name, version, engine).set(1)

    def page(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)
