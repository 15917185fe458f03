"""Every expression of dashboard, recording rules and alerts, asked of the real Prometheus."""

import math
import subprocess

import pytest
import rig
from harness import wait_until


@pytest.fixture(scope="module")
def running():
    with rig.running_rig() as running:
        running.await_history(rig.WINDOW_SECONDS + 2)
        yield running


def numbers(result):
    """The numbers of an answer that are some."""
    samples = [
        sample for series in result for sample in series.get("values", [series.get("value")])
    ]
    return [float(value) for _, value in samples if math.isfinite(float(value))]


def check(result, expression):
    assert result, f"no series: {expression.text}"
    assert numbers(result), f"nothing but NaN: {expression.text}"


def each(expressions):
    return pytest.mark.parametrize("expression", expressions, ids=lambda one: one.where)


@each(rig.dashboard_expressions())
def test_dashboard(running, expression):
    check(running.prometheus.query_range(expression.text, seconds=rig.WINDOW_SECONDS), expression)


@pytest.mark.parametrize("name, series, label", rig.variable_queries())
def test_variables(running, name, series, label):
    assert running.prometheus.ask(f"label/{label}/values", **{"match[]": series}), name


@each(rig.recording_expressions())
def test_recording_rules(running, expression):
    check(running.prometheus.query(expression.text), expression)


@each(rig.alert_expressions())
def test_alerts(running, expression):
    running.prometheus.query(expression.text)  # it may be silent, which is what alerts do
    check(running.prometheus.query(rig.without_comparisons(expression.text)), expression)


def test_prometheus_evaluates_the_rules(running):
    def evaluated():
        groups = running.prometheus.ask("rules")["groups"]
        found = [rule for group in groups for rule in group["rules"]]
        assert len(found) == len(rig.rules("rules.yaml")) + len(rig.rules("alerts.yaml"))
        assert not [rule for rule in found if rule["health"] == "err"], found
        return all(rule["health"] == "ok" for rule in found)

    wait_until(evaluated, "all rules to be evaluated")


def test_metrics_page_is_clean(running):
    page = running.server.metrics_text()
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and not done.stdout and not done.stderr, done
