"""systemd units and the Slurm job: the units verified by systemd, the job run with stand-ins for Slurm's commands."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent.config import load_config
from agent.sources.discovery.documents import read_json

UNITS = ("pdwatch", "pdwatch-sidecar")

SRUN = """#!/bin/sh
{
    printf 'WORDS'
    printf '\\037%s' "$@"
    printf '\\n'
    env | grep -E '^(PDWATCH_|DYN|WATCH_DIR|JOB_NAME|VLLM_)' | sed 's/^/ENV\\x1f/'
} >"$SEEN/$$.txt"
"""
SCONTROL = """#!/bin/sh
i=0; while [ $i -lt "$NODES" ]; do printf 'node%02d\\n' $i; i=$((i + 1)); done
"""


class _Unit(configparser.ConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


def unit(repository: Path, name: str) -> configparser.ConfigParser:
    parser = _Unit(strict=False, interpolation=None)
    parser.read(repository / "deploy" / "systemd" / f"{name}.service", encoding="utf-8")
    return parser


@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong_with_a_unit(name: str, repository: Path, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("no systemd-analyze: install systemd")
    text = (repository / "deploy" / "systemd" / f"{name}.service").read_text(encoding="utf-8")
    assert "/opt/pdwatch/bin/pdwatch" in text
    copy = tmp_path / f"{name}.service"
    copy.write_text(text.replace("/opt/pdwatch/bin/pdwatch", "/bin/true"), encoding="utf-8")
    done = subprocess.run([verify, "verify", "--man=no", copy], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if copy.name in line] == []


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_confined_but_sees_the_processes_of_others(name: str, repository: Path) -> None:
    service = unit(repository, name)["Service"]
    assert service["DynamicUser"] == "yes"
    assert service["ProtectProc"] == "default"
    assert "ProcSubset" not in service
    assert "PrivateUsers" not in service
    assert service["CapabilityBoundingSet"] == ""
    assert service["ProtectSystem"] == "strict"
    assert service["StateDirectory"] == name
    environment = dict(part.split("=", 1) for part in service["Environment"].split())
    assert environment["PDWATCH_STATE_DIR"] == f"/var/lib/{name}"
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"] == "2"


def test_the_sidecars_unit_needs_two_lines_of_environment(repository: Path) -> None:
    text = (repository / "deploy" / "systemd" / "pdwatch-sidecar.service").read_text(encoding="utf-8")
    given = dict(re.findall(r"(?m)^#   (PDWATCH_\w+)=\"?(.*?)\"?$", text))
    assert set(given) == {"PDWATCH_DEPLOYMENT", "PDWATCH_POOLS"}
    fixed = dict(part.split("=", 1) for part in unit(repository, "pdwatch-sidecar")["Service"]["Environment"].split())
    config = load_config(None, {**fixed, **given})
    assert (config.mode, config.listen) == ("sidecar", ":9838")
    assert [target.name for pool in config.pools for target in pool.targets] == ["prefill-2"]


class Job:
    """One run of the job script: what it wrote, and every step that it started."""

    def __init__(self, repository: Path, folder: Path, nodes: int) -> None:
        seen, programs = folder / "seen", folder / "bin"
        for path in (seen, programs):
            path.mkdir()
        for name, text in {"srun": SRUN, "scontrol": SCONTROL}.items():
            (programs / name).write_text(text, encoding="utf-8")
            (programs / name).chmod(stat.S_IRWXU)
        environ = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "SEEN": str(seen),
            "NODES": str(nodes),
            "WATCH_DIR": str(folder / "watch"),
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NAME": "qwen-gb300",
            "SLURM_JOB_NODELIST": f"node[00-{nodes - 1:02}]",
        }
        script = repository / "deploy" / "slurm" / "pdwatch-dynamo.sbatch"
        self.done = subprocess.run(
            ["bash", script], env=environ, cwd=repository, capture_output=True, text=True, timeout=60
        )
        self.targets_file = folder / "watch" / "targets.json"
        self.steps: list[tuple[list[str], dict[str, str]]] = []
        for path in sorted(seen.iterdir()):
            first, *rest = path.read_text(encoding="utf-8").splitlines()
            environment = dict(line.split("\x1f", 1)[1].split("=", 1) for line in rest if line.startswith("ENV\x1f"))
            self.steps.append((first.split("\x1f")[1:], environment))

    def with_word(self, word: str) -> list[tuple[list[str], dict[str, str]]]:
        return [step for step in self.steps if word in step[0]]


@pytest.fixture(scope="module")
def job(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(repository, tmp_path_factory.mktemp("job"), nodes=18)


def test_the_shells_linter_finds_nothing_in_the_job(repository: Path) -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    script = repository / "deploy" / "slurm" / "pdwatch-dynamo.sbatch"
    done = subprocess.run([shellcheck, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_job_starts_everything_beside_one_another(job: Job) -> None:
    assert job.done.returncode == 0, job.done.stderr
    assert all("--overlap" in words for words, _ in job.steps)
    assert [len(job.with_word(word)) for word in ("etcd", "dynamo.frontend", "dynamo.vllm")] == [1, 1, 18]
    assert len([words for words, _ in job.steps if "pdwatch" in words]) == 19


def test_the_job_writes_its_targets_as_pdwatch_reads_them(job: Job) -> None:
    listing = read_json(job.targets_file.read_bytes(), "targets.json")
    assert listing.notes == ()
    names = {target.name: (target.address, dict(target.labels)["role"]) for target in listing.targets}
    assert len(names) == 18
    assert names["prefill-9"] == ("node09:9090", "prefill")
    assert names["decode-0"] == ("node10:9090", "decode")
    assert names["decode-7"] == ("node17:9090", "decode")


def test_every_worker_gets_its_ranks_and_the_drafts_of_its_role(job: Job) -> None:
    ranks: dict[str, list[tuple[int, int]]] = {"prefill": [], "decode": []}
    for words, environment in job.with_word("dynamo.vllm"):
        assert environment["DYN_SYSTEM_PORT"] == "9090"
        role = words[words.index("--disaggregation-mode") + 1]
        size = int(words[words.index("--data-parallel-size") + 1])
        ranks[role].append((size, int(words[words.index("--data-parallel-start-rank") + 1])))
        drafts = words[words.index("--speculative-config") + 1]
        assert f'"num_speculative_tokens": {1 if role == "prefill" else 3}' in drafts
    assert sorted(ranks["prefill"]) == sorted([(8, 0), (8, 4)] * 5)
    assert sorted(ranks["decode"]) == [(32, rank) for rank in range(0, 32, 4)]


def test_each_node_gets_a_sidecar_named_as_central_names_its_target(job: Job) -> None:
    known = {target.name: target.address for target in read_json(job.targets_file.read_bytes(), "").targets}
    watched = {}
    for words, environment in job.with_word("pdwatch"):
        if "-c" in words:
            continue
        config = load_config(None, {name: text for name, text in environment.items() if name.startswith("PDWATCH_")})
        assert config.mode == "sidecar"
        ((target, pool),) = [(target, pool) for pool in config.pools for target in pool.targets]
        assert target.name.startswith(pool.role)
        (node,) = [word.removeprefix("--nodelist=") for word in words if word.startswith("--nodelist=")]
        watched[target.name] = f"{node}:9090"
    assert watched == known


def test_central_runs_on_the_first_node_with_the_example_and_finds_what_the_job_wrote(job: Job) -> None:
    ((words, environment),) = [step for step in job.with_word("pdwatch") if "-c" in step[0]]
    assert "--nodelist=node00" in words
    config = load_config(words[words.index("-c") + 1], environment)
    assert config.deployment == "qwen-gb300"
    files = {
        name
        for pool in config.pools
        if pool.discovery and pool.discovery.file_sd
        for name in pool.discovery.file_sd.files
    }
    assert files == {str(job.targets_file)}
    assert config.router is not None
    assert [target.url for target in config.router.targets] == ["http://node00:8000/metrics"]
    assert {pool.sidecar_port for pool in config.pools} == {9838}


def test_too_few_nodes_end_the_job_with_a_sentence(repository: Path, tmp_path: Path) -> None:
    job = Job(repository, tmp_path, nodes=10)
    assert job.done.returncode == 2
    assert "too few" in job.done.stderr
    assert job.steps == []
