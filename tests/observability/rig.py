"""The real gemmd under a load of every kind, and the real Prometheus watching it with the rules and
the configuration of deploy/prometheus. dcgm_sample.prom stands in for dcgm-exporter."""

import contextlib
import dataclasses
import http.server
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from harness import (  # noqa: E402
    DATA_TYPES,
    PATIENCE,
    REPOSITORY,
    clean_environment,
    gemm_pb2,
    product_request,
    reals,
    running_server,
    wait_until,
)

PROMETHEUS = REPOSITORY / "deploy" / "prometheus"
DASHBOARD = json.loads((REPOSITORY / "deploy/grafana/gemmd.json").read_text(encoding="utf-8"))
DCGM_SAMPLE = (pathlib.Path(__file__).parent / "dcgm_sample.prom").read_bytes()
WINDOW_SECONDS = 10  # what $__rate_interval stands for; scrapes are one second apart

# Every kind of call fails or is refused in it within a second or so.
SERVER_FLAGS = ["--queue-problems=4", "--message-limit=4MiB"]


# ---- What is written down ----


@dataclasses.dataclass(frozen=True)
class Expression:
    where: str
    text: str


def panels():
    """The dashboard's panels, without the rows between them."""
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def substitute(text, range_seconds=WINDOW_SECONDS):
    """As Grafana would, with "All" chosen for servers and devices."""
    values = {"instance": ".+", "device": ".+", "method": "Multiply"}
    values["__rate_interval"] = f"{range_seconds}s"
    # Not $1, which label_replace has.
    return re.sub(r"\$([A-Za-z_]\w*)", lambda match: values[match[1]], text)


def dashboard_expressions():
    return [
        Expression(f"panel {panel['title']!r} {target['refId']}", substitute(target["expr"]))
        for panel in panels()
        for target in panel["targets"]
    ]


def variable_queries():
    """(name, series, label) of each of the dashboard's variables that asks Prometheus."""
    found = []
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            found.append((variable["name"], substitute(match[1]), match[2]))
    return found


def rules(file):
    groups = yaml.safe_load((PROMETHEUS / file).read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def recording_expressions():
    found = []
    for rule in rules("rules.yaml"):
        found.append(Expression(f"rule {rule['record']}", rule["expr"]))
        found.append(Expression(f"recorded {rule['record']}", rule["record"]))
    return found


def alert_expressions():
    return [Expression(f"alert {rule['alert']}", rule["expr"]) for rule in rules("alerts.yaml")]


def without_comparisons(text):
    """What an alert compares with a number: it must be there even where the alert does not fire."""
    return re.sub(r"\s(>|<|>=|<=|==|!=) [\d.]+", "", text)


# ---- What runs ----


class DcgmExporter(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(DCGM_SAMPLE)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def dcgm_exporter():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), DcgmExporter)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Load:
    """Calls of every kind, again and again, until closed."""

    def __init__(self, server):
        self._server = server
        self._products = [
            product_request(reals(1, m, k, dtype=dtype), reals(2, k, n, dtype=dtype))
            for m, n, k in ((8, 8, 8), (64, 64, 64), (256, 256, 256))
            for dtype in ("f4", "f8")
        ]
        # Small messages and tens of milliseconds of work, so that others have to wait.
        self._large = product_request(reals(3, 64, 4096), reals(4, 4096, 64), batch_count=128)
        self._large.product.a.batch_stride = self._large.product.b.batch_stride = 0
        self._wrong = product_request(reals(5, 3, 3), reals(6, 3, 3), m=-1)
        self._oversized = product_request(reals(7, 1100, 1000), reals(8, 1000, 1))
        size = str(self._oversized.ByteSize())
        # An operand that stays.
        kept = reals(8, 64, 64)
        made = gemm_pb2.CreateMatrixRequest(
            name="kept", data_type=DATA_TYPES[kept.dtype], rows=64, columns=64
        )
        server.stub.CreateMatrix(made, timeout=PATIENCE)
        rows = gemm_pb2.WriteRowsRequest(name="kept", row_count=64)
        rows.payloads.append(kept.tobytes())
        server.stub.WriteRows(rows, timeout=PATIENCE)
        self._resident = product_request(reals(9, 64, 64), reals(10, 64, 64))
        self._resident.product.b.CopyFrom(gemm_pb2.Operand(matrix=gemm_pb2.MatrixRows(name="kept")))
        self._resident.payloads.pop()
        self._announced = {"timeout": PATIENCE, "metadata": [("gemmd-request-bytes", size)]}
        self.rounds = 0
        self.error = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            while not self._stopping.wait(0.02):
                self._round()
                self.rounds += 1
        except Exception as error:  # told by close()
            self.error = error

    def _round(self):
        server = self._server
        call = server.stub.Multiply.future
        for product in [*self._products, self._resident]:
            server.multiply(product)
        server.stub.ReadRows(gemm_pb2.ReadRowsRequest(name="kept"), timeout=PATIENCE)
        server.stub.GetServerInfo(gemm_pb2.GetServerInfoRequest(), timeout=PATIENCE)
        server.stub.Explain(
            gemm_pb2.ExplainRequest(product=self._products[0].product), timeout=PATIENCE
        )
        server.health_status()
        calls = [call(self._wrong, timeout=PATIENCE), call(self._oversized, **self._announced)]
        calls.append(call(self._large, timeout=PATIENCE))
        time.sleep(0.01)  # it should run by now
        # Two that lose patience in the queue, and more than the queue holds.
        calls += [call(self._products[0], timeout=0.004) for _ in range(2)]
        calls += [call(self._products[1], timeout=PATIENCE) for _ in range(10)]
        for one in calls:
            one.exception()

    def close(self):
        self._stopping.set()
        self._thread.join()
        if self.error is not None:
            raise self.error


def configuration(gemmd, dcgm):
    """That of deploy/prometheus, but every second and with the targets given. The CPU device has no
    UUID, so it gets the sample's, as if it were that GPU."""
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(PROMETHEUS / file) for file in config["rule_files"]]
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert set(jobs) == {"gemmd", "dcgm-exporter"}
    for job, target in (("gemmd", gemmd), ("dcgm-exporter", dcgm)):
        jobs[job]["static_configs"] = [{"targets": [target]}]
    jobs["gemmd"]["metric_relabel_configs"] = [
        {
            "source_labels": ["__name__"],
            "regex": "gemmd_device_info",
            "target_label": "uuid",
            "replacement": re.search(rb'UUID="([^"]+)"', DCGM_SAMPLE)[1].decode(),
        }
    ]
    return config


class Prometheus:
    def __init__(self, config):
        program = shutil.which("prometheus")
        assert program, "no prometheus: deploy/install-deps.sh test installs it"
        self._folder = tempfile.TemporaryDirectory(prefix="gemmd-prometheus-")
        folder = pathlib.Path(self._folder.name)
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._log = folder / "log"
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [
                    program,
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={self.address}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=clean_environment(),
            )
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            wait_until(self._ready, "Prometheus to be ready")
        except BaseException:
            self.close()
            raise

    def _ready(self):
        assert self._process.poll() is None, self._log.read_text(encoding="utf-8")
        try:
            self._opener.open(f"http://{self.address}/-/ready", timeout=PATIENCE).close()
            return True
        except OSError:
            return False

    def ask(self, path, **parameters):
        """The data of an answer of the HTTP API; an error says what Prometheus said."""
        url = (
            f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        )
        try:
            with self._opener.open(url, timeout=PATIENCE) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def query_range(self, expression, seconds, step=1):
        """As a panel asks: the last `seconds`, every `step`."""
        now = time.time()
        return self.ask("query_range", query=expression, start=now - seconds, end=now, step=step)[
            "result"
        ]

    def close(self):
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


@dataclasses.dataclass
class Rig:
    server: object
    load: Load
    prometheus: Prometheus

    def await_history(self, seconds):
        """Waits until so much has been scraped and every kind of call has happened."""
        scrapes = "min(count_over_time(up[1h]) and up == 1)"

        def enough():
            assert self.load.error is None, self.load.error
            found = self.prometheus.query(scrapes)
            return self.load.rounds > 3 and found and float(found[0]["value"][1]) >= seconds

        wait_until(enough, "scrapes", PATIENCE + 2 * seconds)


@contextlib.contextmanager
def running_rig():
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running_server(*SERVER_FLAGS))
        dcgm = stack.enter_context(dcgm_exporter())
        load = Load(server)
        stack.callback(load.close)
        prometheus = Prometheus(configuration(server.metrics_address, dcgm))
        stack.callback(prometheus.close)
        yield Rig(server, load, prometheus)
