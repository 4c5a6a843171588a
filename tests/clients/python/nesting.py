"""A worker in Python whose action `nest` executes the plan in its payload as a child of its execution, in the name of its attempt.

It is started like the worker that it is made of, and by the same variables.
"""

import os
import sys
from pathlib import Path

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "worker" / "python"))
from escapement_log import log_to_stderr  # noqa: E402
from escapement_tls import Credentials  # noqa: E402
from escapement_worker import StepError, Worker, echo  # noqa: E402

api = grpc.protos("escapement/v1/plan_execution_service.proto")
service = grpc.services("escapement/v1/plan_execution_service.proto")


def nest(payload, attempt):
    channel, metadata = attempt.caller()
    request = ParseDict({"plan": payload["plan"]}, api.ExecutePlanRequest())
    request.parent_execution_id = attempt.assignment.execution_id
    request.environment.CopyFrom(attempt.assignment.environment)
    with channel:
        plans = service.PlanExecutionServiceStub(channel)
        try:
            result = plans.ExecutePlan(request, metadata=metadata, timeout=60).result
        except grpc.RpcError as error:
            raise StepError("CHILD_REJECTED", error.details(), "fatal")
    return MessageToDict(result, preserving_proto_field_name=True)


log_to_stderr()
sys.exit(Worker(os.environ["ESCAPEMENT_ORCHESTRATOR"], {"nest": nest, "echo": echo},
                credentials=Credentials.from_environment()).run() or 0)
