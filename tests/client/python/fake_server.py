"""A server that behaves as told, for what the real one cannot be made to do on demand."""

import contextlib
import functools
import threading
from concurrent import futures

import grpc
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
