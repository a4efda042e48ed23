"""A training on several devices and processes gives the weights of a training on one."""

import os
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest

QUICKLY_COMPILED = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def start(what, folder, devices=1, **environment):
    folder.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "KERAS_BACKEND": "jax",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"{QUICKLY_COMPILED} --xla_force_host_platform_device_count={devices}",
        **environment,
    }
    command = [sys.executable, "-m", "tests.training.several_devices", what, folder]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def weights_of(folder, *processes):
    for process in processes:
        errors = process.communicate(timeout=600)[1]
        assert process.returncode == 0, errors
    return dict(np.load(folder / "weights.npz"))


def two_processes(what, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    told = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": "2"}
    return weights_of(
        folder,
        *(
            start(what, folder, devices=2, JAX_PROCESS_ID=str(number), **told)
            for number in range(2)
        ),
    )


def assert_close(weights, expected):
    assert weights.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(weights[name], value, rtol=0, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    return weights_of(folder, start("classifier", folder))


def test_four_devices_give_the_weights_of_one_which_can_go_on_with_theirs(one_device, tmp_path):
    assert_close(weights_of(tmp_path, start("classifier", tmp_path, devices=4)), one_device)
    shutil.copytree(tmp_path / "early", tmp_path / "again" / "points")
    again = tmp_path / "again"
    assert_close(weights_of(again, start("classifier", again)), one_device)


def test_two_processes_with_two_devices_each_give_the_weights_of_one(one_device, tmp_path):
    assert_close(two_processes("classifier", tmp_path), one_device)


def test_two_processes_pretrain_as_one_does_and_the_first_alone_keeps_it(tmp_path):
    words = [f"{one} {other}" for one in ("router", "bill", "phone") for other in "abcdefgh"]
    lines = [f"{words[row % 24]} is {words[(5 * row) % 24]}." for row in range(400)]
    text = "".join(f"{line}\n" + "\n" * (row % 3 == 2) for row, line in enumerate(lines))
    found = []
    for name in ("one", "two"):
        (folder := tmp_path / name).mkdir()
        (folder / "texts.txt").write_text(text)
        found.append(
            weights_of(folder, start("pretraining", folder))
            if name == "one"
            else two_processes("pretraining", folder)
        )
    assert_close(found[1], found[0])
