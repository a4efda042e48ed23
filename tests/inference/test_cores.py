"""The number of cores used: container quotas, in both versions of control groups."""

import pytest

from bertcnn.bundle.bundle import read_bundle
from bertcnn.errors import SettingsError
from bertcnn.inference import compiled_model, engine_graph
from bertcnn.inference.cores import cores_within, machine_cores, processor_quota, usable_cores
from tests.tiny import saved


@pytest.mark.parametrize(
    ("files", "group", "quota"),
    [
        ({"pod/box/cpu.max": "150000 100000\n"}, "0::/pod/box", 1.5),
        (
            {
                "pod/box/cpu.max": "max 1000\n",
                "pod/cpu.max": "500 1000\n",
                "cpu.max": "4000 1000\n",
            },
            "0::/pod/box",
            0.5,
        ),
        ({"cpu.max": "200000 100000\n"}, "0::/path/on/the/host", 2),
        (
            {"cpu/box/cpu.cfs_quota_us": "300000\n", "cpu/box/cpu.cfs_period_us": "100000\n"},
            "3:cpu,cpuacct:/box",
            3,
        ),
        (
            {"cpu,cpuacct/cpu.cfs_quota_us": "3000\n", "cpu,cpuacct/cpu.cfs_period_us": "1000\n"},
            "3:cpu,cpuacct:/",
            3,
        ),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, "1:cpu:/", None),
        *(({"cpu.max": text}, "0::/", None) for text in ("max 1\n", "", "nonsense\n", "10 0\n")),
    ],
)
def test_the_smallest_quota_on_the_way_up_counts(tmp_path, files, group, quota):
    for name, text in files.items():
        (tmp_path / "mount" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mount" / name).write_text(text)
    (tmp_path / "cgroup").write_text(f"4:memory:/elsewhere\n{group}\n")
    assert processor_quota(tmp_path / "cgroup", tmp_path / "mount") == quota
    assert processor_quota(tmp_path / "nothing", tmp_path) is None


@pytest.mark.parametrize(("quota", "cores"), [(0.2, 1), (1.4, 1), (1.5, 2), (900, 4), (None, 4)])
def test_a_quota_is_rounded_to_whole_cores(quota, cores):
    assert cores_within(4, quota) == cores


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
