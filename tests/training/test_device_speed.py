"""A device's training speed, by its name."""

import keras
import pytest

from bertcnn.training import recipe_choice
from bertcnn.training.recipe_choice import cpu_speed, gpu_speed, measured_cpu_speed

ZEN_3, ZEN_4 = "flags : sse2 avx avx2 fma", "flags : sse2 avx2 fma avx512f avx512_vnni"


def test_a_cpu_is_known_by_its_cores_and_flags():
    assert cpu_speed(2, ZEN_4).name == "this CPU (2 cores with AVX-512)"
    assert cpu_speed(1, ZEN_3).name == "this CPU (1 core)"
    assert cpu_speed(2, ZEN_4).flops == 1e11
    assert cpu_speed(2, ZEN_3).flops < cpu_speed(2, ZEN_4).flops < cpu_speed(4, ZEN_4).flops
    assert cpu_speed(8, ZEN_3).flops == cpu_speed(64, ZEN_3).flops


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA A10", 125),
        ("NVIDIA A10G", 70),
        ("a GPU", 80),
    ],
)
def test_a_card_is_known_by_its_name(name, teraflops):
    assert gpu_speed(name).flops == pytest.approx(teraflops * 1e12 / 8)
    assert gpu_speed(name, 4).flops == 4 * gpu_speed(name).flops


def test_the_same_device_has_the_same_speed_each_time(monkeypatch):
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["cpu:0"])
    monkeypatch.setenv("BERTCNN_CORES", "3")
    assert recipe_choice.device_speed() == recipe_choice.device_speed()
    assert "(3 cores" in recipe_choice.device_speed().name


@pytest.mark.on_jax
def test_a_gpus_speed_depends_on_its_name(monkeypatch):
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["gpu:0"])
    monkeypatch.setattr(recipe_choice, "gpu_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(recipe_choice, "training_mesh", lambda: None)
    assert recipe_choice.device_speed() == gpu_speed("NVIDIA H200")


def test_a_cpu_is_measured_on_request():
    speed = measured_cpu_speed()
    assert 1e8 < speed.flops < 1e14
    assert speed.compiling == pytest.approx(6e12 / (2 * speed.flops))
