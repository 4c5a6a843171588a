"""A caller in Python, as a user would write it from the protos alone: runs one plan, is refused one, and fetches a large result.

Arguments: the address of the orchestrator, a new plan id, a step id, and the id of an execution with more than 4 MiB of result.
"""

import sys
import time

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from escapement.v1 import plan_execution_service_pb2 as api
from escapement.v1 import plan_execution_service_pb2_grpc as services
from escapement.v1 import plan_pb2, result_pb2


def plan_of(plan_id, step_id):
    plan = plan_pb2.Plan(
        id=plan_id,
        version=1,
        created_at=time.time_ns() // 1_000_000,
        name="from Python",
        context_requirements=["region"],
        steps=[plan_pb2.PlanStep(id=step_id, action="echo", on_failure="skip")],
    )
    plan.steps[0].payload.update({"n": 7})
    return plan


def refused(call):
    try:
        call()
    except grpc.RpcError as error:
        return error
    raise AssertionError("it was not refused")


def main(address, plan_id, step_id, large_id):
    plans = services.PlanExecutionServiceStub(grpc.insecure_channel(address))
    request = api.ExecutePlanRequest(plan=plan_of(plan_id, step_id))
    request.environment.update({"region": "eu"})
    result = plans.ExecutePlan(request, timeout=60).result
    assert result.status == result_pb2.PlanResult.success, result
    assert result.completed_at > 1_700_000_000_000, result
    assert result.steps_executed == 1 and not result.HasField("error"), result
    assert result.result_payload[step_id]["n"] == 7, result

    error = refused(lambda: plans.ExecutePlan(api.ExecutePlanRequest(plan=plan_pb2.Plan()), timeout=60))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
    info, violations = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for detail in rpc_status.from_call(error).details:
        for message in (info, violations):
            detail.Unpack(message)
    assert (info.reason, info.domain) == ("INVALID_PAYLOAD", "escapement.dev"), info
    assert len(violations.field_violations) > 3, violations
    assert violations.field_violations[0].field == "plan.id", violations

    large = api.GetExecutionRequest(execution_id=large_id)
    error = refused(lambda: plans.GetExecution(large, timeout=60))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
    options = [("grpc.max_receive_message_length", 20 << 20)]
    plans = services.PlanExecutionServiceStub(grpc.insecure_channel(address, options=options))
    found = plans.GetExecution(large, timeout=60).execution
    assert len(found.result.result_payload) == 11, found.result_payload.keys()

    # The same module has what explains an execution.
    explained = plans.ExplainExecution(api.ExplainExecutionRequest(execution_id=large_id), timeout=60)
    assert explained.execution.text, explained
    print("held")


main(*sys.argv[1:])
