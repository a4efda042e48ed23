"""Saved models in other programs' formats, compared with the model before they appear."""

import bertcnn.inference  # noqa: F401 - before OpenVINO, which it keeps from reporting
