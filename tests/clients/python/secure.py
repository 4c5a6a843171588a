"""A caller in Python that comes by mutual TLS and shows a token: is refused without the token, and runs one plan with it.

Arguments: host and port of the orchestrator, files of the authority, the certificate, its key and the token, a new plan id and a step id.
"""

import sys
import time
from pathlib import Path

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from escapement.v1 import plan_execution_service_pb2 as api
from escapement.v1 import plan_execution_service_pb2_grpc as services
from escapement.v1 import plan_pb2, result_pb2


def main(address, ca, cert, key, token, plan_id, step_id):
    read = lambda file: Path(file).read_bytes()
    tls = grpc.ssl_channel_credentials(read(ca), read(key), read(cert))
    bearer = grpc.access_token_call_credentials(read(token).decode().strip())
    both = grpc.composite_channel_credentials(tls, bearer)

    step = plan_pb2.PlanStep(id=step_id, action="echo")
    step.payload.update({"n": 7})
    request = api.ExecutePlanRequest(
        plan=plan_pb2.Plan(
            id=plan_id,
            version=1,
            created_at=time.time_ns() // 1_000_000,
            name="from Python",
            context_requirements=["region"],
            steps=[step],
        )
    )
    request.environment.update({"region": "eu"})

    with grpc.secure_channel(address, tls) as channel:
        try:
            services.PlanExecutionServiceStub(channel).ExecutePlan(request, timeout=60)
            raise AssertionError("it was let in without its token")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.PERMISSION_DENIED, error
            info = error_details_pb2.ErrorInfo()
            rpc_status.from_call(error).details[0].Unpack(info)
            assert info.reason == "ROLE_MISSING", info

    with grpc.secure_channel(address, both) as channel:
        plans = services.PlanExecutionServiceStub(channel)
        result = plans.ExecutePlan(request, timeout=60).result
        assert result.status == result_pb2.PlanResult.success, result
        assert result.result_payload[step_id]["n"] == 7, result
    print("held")


main(*sys.argv[1:])
