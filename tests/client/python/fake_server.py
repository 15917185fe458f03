"""A server that behaves as told, for what the real one cannot be made to do on demand."""

import collections
import contextlib
import functools
import threading
from concurrent import futures

import grpc
import numpy as np
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from gemmd import _contract, _wire


class FakeServer(grpc.GenericRpcHandler):
    """Answers each call by `behave(call number from 0, request bytes, context)`; GetServerInfo,
    which is not counted, by `info`, unless that is None."""

    def __init__(self, behave):
        self.behave = behave
        self.info = _contract.GetServerInfoReply(message_limit_bytes=1 << 30)
        self.requests = []
        self.methods = []
        self.metadata = []
        self.cancelled = threading.Event()
        self.started = threading.Event()
        self._lock = threading.Lock()

    def service(self, details):
        if details.method == _contract.GET_SERVER_INFO and self.info is not None:
            return grpc.unary_unary_rpc_method_handler(lambda *_: self.info.SerializeToString())
        answer = functools.partial(self._answer, details.method)
        return grpc.unary_unary_rpc_method_handler(answer)

    def _answer(self, method, request, context):
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            self.methods.append(method)
            self.metadata.append(dict(context.invocation_metadata()))
        context.add_callback(lambda: context.code() is None and self.cancelled.set())
        self.started.set()
        return self.behave(number, request, context)


@contextlib.contextmanager
def fake_server(behave):
    handler = FakeServer(behave)
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(4), options=options)
    server.add_generic_rpc_handlers((handler,))
    handler.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield handler
    finally:
        server.stop(0).wait()


def refuse(context, code, message, reason=None, retry_delay=None):
    """Ends the call as gemmd would."""
    status = status_pb2.Status(code=code.value[0], message=message)
    if reason is not None:
        _pack(status, error_details_pb2.ErrorInfo(reason=reason, domain="gemmd"))
    if retry_delay is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(int(retry_delay * 1e9))
        _pack(status, retry)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, message)


def _pack(status, detail):
    packed = any_pb2.Any()
    packed.Pack(detail)
    status.details.append(packed)


def product_reply(result):
    """The bytes of a MultiplyReply that holds this array."""
    reply = _contract.MultiplyReply(payloads=[result.tobytes()])
    reply.report.kernel = "fake"
    return reply.SerializeToString()


def parse_request(request):
    """The MultiplyRequest as stock protobuf reads it, after checking our own reader on it."""
    message = _contract.MultiplyRequest.FromString(request)
    split = _wire.split_message(request)
    assert [request[start : start + size] for start, size in split.payloads] == list(
        message.payloads
    )
    return message


class FakeStore:
    """Matrices and products, f32 only, as the contract has them. `interfere(method, request,
    context, call number of this method)` may refuse a call before anything happens."""

    def __init__(self, interfere=lambda *_: None):
        self.interfere = interfere
        self.matrices = {}  # name: array, rows that are there
        self.writes = []  # name, first row, rows, of the calls that came through
        self._counts = collections.Counter()
        self._lock = threading.Lock()

    def behave(self, number, request, context):
        method = self.server.methods[number]
        name = method.rpartition("/")[2]
        message = getattr(_contract, f"{name}Request").FromString(request)
        with self._lock:
            count = self._counts[name]
            self._counts[name] += 1
        self.interfere(name, message, context, count)
        with self._lock:
            reply = getattr(self, f"_{name}")(message, context)
        return b"" if reply is None else reply.SerializeToString()

    def calls(self, name):
        return self._counts[name]

    def forget_all(self):
        """As a restart does."""
        with self._lock:
            self.matrices.clear()

    def _find(self, name, context):
        if name not in self.matrices:
            refuse(context, grpc.StatusCode.NOT_FOUND, f"no matrix {name}", "MATRIX_NOT_FOUND")
        return self.matrices[name]

    def _state(self, name):
        array, written = self.matrices[name]
        state = {"name": name, "data_type": 1, "rows": len(array), "columns": array.shape[1]}
        state |= {"rows_written": int(written.sum()), "sealed": bool(written.all())}
        return state

    def _CreateMatrix(self, request, context):
        if request.name not in self.matrices:
            shape = (request.rows, request.columns)
            self.matrices[request.name] = np.zeros(shape, "f4"), np.zeros(request.rows, bool)
        return _contract.CreateMatrixReply(matrix=self._state(request.name))

    def _WriteRows(self, request, context):
        array, written = self._find(request.name, context)
        rows = slice(request.row_begin, request.row_begin + request.row_count)
        sent = np.frombuffer(request.payloads[0], "f4").reshape(array[rows].shape)
        missing = ~written[rows]
        array[rows][missing] = sent[missing]
        written[rows] = True
        self.writes.append((request.name, request.row_begin, request.row_count))
        return _contract.WriteRowsReply(matrix=self._state(request.name))

    def _use(self, name, context):
        array, written = self._find(name, context)
        if not written.all():
            code = grpc.StatusCode.FAILED_PRECONDITION
            refuse(context, code, f"rows of {name} are missing", "MATRIX_NOT_SEALED")
        return array

    def _ReadRows(self, request, context):
        array = self._use(request.name, context)
        rows = array[request.row_begin : request.row_begin + request.row_count]
        reply = _contract.ReadRowsReply(matrix=self._state(request.name))
        reply.payloads.append(rows.tobytes())
        return reply

    def _GetMatrix(self, request, context):
        self._find(request.name, context)
        return _contract.GetMatrixReply(matrix=self._state(request.name))

    def _DeleteMatrix(self, request, context):
        self._find(request.name, context)
        del self.matrices[request.name]

    def _product(self, product, payloads):
        def operand(operand, rows, columns):
            shape = (columns, rows) if operand.transposed else (rows, columns)
            if operand.HasField("matrix"):
                begin, count = operand.matrix.row_begin, operand.matrix.row_count
                array = self.matrices[operand.matrix.name][0][begin : begin + count]
            else:
                array = np.frombuffer(payloads[operand.payload], "f4").reshape(shape)
            return array.T if operand.transposed else array

        a = operand(product.a, product.m, product.k)
        return product.alpha * (a @ operand(product.b, product.k, product.n))

    def _Multiply(self, request, context):
        for operand in (request.product.a, request.product.b):
            if operand.HasField("matrix"):
                self._use(operand.matrix.name, context)
        return _contract.MultiplyReply(
            payloads=[self._product(request.product, request.payloads).tobytes()]
        )

    def _MultiplyBatch(self, request, context):
        reply = _contract.MultiplyBatchReply()
        for product in request.products:
            result = reply.results.add()
            reason = self.fails(product)
            if reason is None:
                result.report.kernel = "fake"
                reply.payloads.append(self._product(product, request.payloads).tobytes())
            else:
                code, text = reason
                result.error.code, result.error.message = code.value[0], text
                detail = result.error.details.add()
                detail.Pack(error_details_pb2.ErrorInfo(reason=text, domain="gemmd"))
                reply.payloads.append(b"")
        return reply

    def fails(self, product):
        """Code and reason of a product of a batch that is to fail, or None."""
        name = product.b.matrix.name
        if name and name not in self.matrices:
            return grpc.StatusCode.NOT_FOUND, "MATRIX_NOT_FOUND"
        if name and not self.matrices[name][1].all():
            return grpc.StatusCode.FAILED_PRECONDITION, "MATRIX_NOT_SEALED"
        return None


@contextlib.contextmanager
def store_server(*arguments):
    """A FakeStore, its address and its server as attributes."""
    store = FakeStore(*arguments)
    with fake_server(store.behave) as server:
        store.server, store.address = server, server.address
        yield store
