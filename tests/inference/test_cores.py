"""The number of cores used: container quotas, in both versions of control groups."""

import pytest

from bertcnn.bundle.bundle import read_bundle
from bertcnn.errors import SettingsError
from bertcnn.inference.compiled import compiled_model
from bertcnn.inference.cores import machine_cores, processor_quota, usable_cores
from bertcnn.inference.openvino_engine import engine_graph
from tests.tiny import saved


def group(mount, path, **files):
    folder = mount / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def quota_of(tmp_path, line):
    (tmp_path / "cgroup").write_text(f"4:memory:/elsewhere\n{line}\n")
    return processor_quota(tmp_path / "cgroup", tmp_path / "mount")


def test_a_quota_of_version_2_is_read(tmp_path):
    group(tmp_path / "mount", "pod/box", cpu__max="150000 100000\n")
    assert quota_of(tmp_path, "0::/pod/box") == 1.5


def test_the_smallest_quota_on_the_way_up_counts(tmp_path):
    group(tmp_path / "mount", "pod/box", cpu__max="max 100000\n")
    group(tmp_path / "mount", "pod", cpu__max="50000 100000\n")
    group(tmp_path / "mount", "", cpu__max="400000 100000\n")
    assert quota_of(tmp_path, "0::/pod/box") == 0.5


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
def test_a_quota_of_version_1_is_read_wherever_it_is_mounted(tmp_path, folder):
    files = {"cpu__cfs_quota_us": "300000\n", "cpu__cfs_period_us": "100000\n"}
    group(tmp_path / "mount", f"{folder}/docker/box", **files)
    assert quota_of(tmp_path, "3:cpu,cpuacct:/docker/box") == 3


def test_inside_a_container_the_mount_itself_is_the_group(tmp_path):
    group(tmp_path / "mount", "", cpu__max="200000 100000\n")
    assert quota_of(tmp_path, "0::/path/on/the/host") == 2


@pytest.mark.parametrize("text", ["max 100000\n", "", "nonsense\n", "100000 0\n"])
def test_no_quota_is_no_limit(tmp_path, text):
    group(tmp_path / "mount", "", cpu__max=text)
    assert quota_of(tmp_path, "0::/") is None


def test_without_a_quota_of_version_1_there_is_no_limit(tmp_path):
    group(tmp_path / "mount", "cpu", cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    assert quota_of(tmp_path, "1:cpu:/") is None
    assert processor_quota(tmp_path / "nothing", tmp_path) is None


@pytest.mark.parametrize(("quota", "cores"), [(0.2, 1), (1.4, 1), (1.5, 2), (900, None)])
def test_a_quota_is_rounded_to_whole_cores(monkeypatch, quota, cores):
    monkeypatch.delenv("BERTCNN_CORES", raising=False)
    monkeypatch.setattr("bertcnn.inference.cores.processor_quota", lambda: quota)
    monkeypatch.setattr("bertcnn.inference.cores.machine_cores", lambda: 4)
    assert usable_cores() == (cores or 4)


def test_the_setting_decides(monkeypatch):
    monkeypatch.setenv("BERTCNN_CORES", "3")
    assert usable_cores() == 3
    monkeypatch.setenv("BERTCNN_CORES", "many")
    with pytest.raises(SettingsError, match="BERTCNN_CORES='many'; expected a number of cores"):
        usable_cores()


@pytest.mark.skipif(machine_cores() == 1, reason="needs two cores")
def test_threads_are_not_pinned_where_others_use_the_machine_too(monkeypatch, encoder_folder):
    folder = saved(encoder_folder)
    graph = engine_graph(None, read_bundle(folder))
    monkeypatch.setenv("BERTCNN_CORES", "1")
    model = compiled_model(lambda: graph)
    names = "NUM_STREAMS", "INFERENCE_NUM_THREADS", "ENABLE_CPU_PINNING"
    assert [model.get_property(name) for name in names] == [1, 1, False]
