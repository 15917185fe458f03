"""The files of deploy/ that no other test runs: what can be said without Docker and Grafana."""

import json
import re
import subprocess

import pytest
import rig
import yaml
from harness import BIN, REPOSITORY

DEPLOY = REPOSITORY / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
README = (DEPLOY / "README.md").read_text(encoding="utf-8")
ALERTS = [rule["alert"] for rule in rig.rules("alerts.yaml")]


def load(path):
    return yaml.safe_load((DEPLOY / path).read_text(encoding="utf-8"))


# Prometheus


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "config", "deploy/prometheus/prometheus.yml"],  # and the rules that it names
        ["check", "rules", "deploy/prometheus/rules.yaml", "deploy/prometheus/alerts.yaml"],
        ["test", "rules", "tests/observability/alerts_test.yaml"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_promtool(arguments):
    done = subprocess.run(
        ["promtool", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_both_ways():
    text = (REPOSITORY / "tests/observability/alerts_test.yaml").read_text(encoding="utf-8")
    fires, silent = set(), set()
    for test in yaml.safe_load(text)["tests"]:
        for case in test.get("alert_rule_test", []):
            (fires if case["exp_alerts"] else silent).add(case["alertname"])
    assert fires == silent == set(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_runbook(alert):
    assert f"| `{alert}` |" in README


# Grafana


def test_dashboard_is_written_as_committed():
    text = (DEPLOY / "grafana/gemmd.json").read_text(encoding="utf-8")
    assert text == json.dumps(rig.DASHBOARD, indent=2, ensure_ascii=False) + "\n"


def test_dashboard_fits_grafana():
    ids = [panel["id"] for panel in rig.DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    covered = set()
    for panel in rig.DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert max(x for x, _ in cells) < 24 and not cells & covered, panel["title"]
        covered |= cells
    for panel in rig.panels():
        assert panel["description"] and panel["targets"], panel["title"]
        assert f"| {panel['title']} |" in README
        if panel["type"] == "heatmap":
            assert panel["options"]["yAxis"]["unit"]
        else:
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for one in [panel, *panel["targets"]]:
            assert one["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_grafana_scrape_interval_is_that_of_prometheus():
    (source,) = load("grafana/datasource.yaml")["datasources"]
    configured = load("prometheus/prometheus.yml")["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == configured


def test_dcgm_exports_what_the_dashboard_and_the_sample_have():
    listed = (DEPLOY / "prometheus/dcgm-counters.csv").read_text(encoding="utf-8")
    exported = set(re.findall(r"^(DCGM_\w+),", listed, re.MULTILINE))
    used = set(re.findall(r"DCGM_\w+", json.dumps(rig.DASHBOARD)))
    assert used <= exported
    assert exported == set(re.findall(r"^(DCGM_\w+)\{", rig.DCGM_SAMPLE.decode(), re.MULTILINE))


# Compose


def mounts(service):
    """(path here, path in the container) of the files that a service is given."""
    for volume in service.get("volumes", []):
        source, target, *_ = volume.split(":")
        if source.startswith("."):
            yield DEPLOY / source, target
        else:
            assert source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_mounted_files_exist(name):
    for source, _ in mounts(COMPOSE["services"][name]):
        assert source.is_file(), source


def test_images_are_pinned():
    for name, service in COMPOSE["services"].items():
        if name != "gemmd":  # which is built from this checkout
            assert re.search(r":v?\d+\.\d+\.\d+", service["image"]), name


def test_ports():
    """Those that the server has by default, that Prometheus scrapes, that Grafana asks."""
    published = {
        name: [port.split(":")[-1] for port in service.get("ports", [])]
        for name, service in COMPOSE["services"].items()
    }
    assert published == {
        "gemmd": ["50051"], "prometheus": ["9090"], "grafana": ["3000"], "dcgm-exporter": []
    }  # fmt: skip
    for service in COMPOSE["services"].values():
        for port in service.get("ports", []):
            assert "127.0.0.1:" in port, "published on this machine only"
    help_text = subprocess.run(
        [BIN / "gemmd", "--help"], capture_output=True, text=True, check=True
    )
    assert "--listen HOST:PORT=127.0.0.1:50051" in help_text.stdout
    assert "--metrics-listen HOST:PORT=127.0.0.1:9464" in help_text.stdout
    targets = {
        target
        for job in load("prometheus/prometheus.yml")["scrape_configs"]
        for group in job["static_configs"]
        for target in group["targets"]
    }
    assert targets == {"gemmd:9464", "dcgm-exporter:9400"}
    (source,) = load("grafana/datasource.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"


def test_options_of_gemmd():
    """Each GEMMD_ variable that is set names an option."""
    help_text = subprocess.run(
        [BIN / "gemmd", "--help"], capture_output=True, text=True, check=True
    )
    for variable in COMPOSE["services"]["gemmd"]["environment"]:
        flag = "--" + variable.removeprefix("GEMMD_").lower().replace("_", "-")
        assert f"  {flag} " in help_text.stdout, variable


def test_prometheus_and_grafana_find_what_is_mounted():
    mounted = {target for _, target in mounts(COMPOSE["services"]["prometheus"])}
    files = load("prometheus/prometheus.yml")["rule_files"]
    assert mounted == {f"/etc/prometheus/{file}" for file in ["prometheus.yml", *files]}
    mounted = {target for _, target in mounts(COMPOSE["services"]["grafana"])}
    (provider,) = load("grafana/dashboards.yaml")["providers"]
    assert f"{provider['options']['path']}/gemmd.json" in mounted
    home = COMPOSE["services"]["grafana"]["environment"][
        "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"
    ]
    assert home in mounted
    ((_, counters),) = mounts(COMPOSE["services"]["dcgm-exporter"])
    assert counters in COMPOSE["services"]["dcgm-exporter"]["command"]
