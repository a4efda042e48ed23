"""One path to an answer: engines, the predictor and its evidence."""

import sys

# OpenVINO and NNCF report their use to their makers, and leave an id in the user's home, unless
# they cannot import this; it must be said before any module imports OpenVINO
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
