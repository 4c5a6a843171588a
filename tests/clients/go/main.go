// A caller in Go, as a user would write it from the protos alone: runs one plan, is refused one, and fetches a large result.
//
// Arguments: the address of the orchestrator, a new plan id, a step id, and the id of an execution with more than 4 MiB of result.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	escapementv1 "escapement.dev/proto/escapement/v1"
)

func main() {
	address, planID, stepID, largeID := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err == nil, "a connection: %v", err)
	plans := escapementv1.NewPlanExecutionServiceClient(connection)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	payload, err := structpb.NewStruct(map[string]any{"n": 7})
	check(err == nil, "a payload: %v", err)
	plan := &escapementv1.Plan{
		Id: planID, Version: 1, CreatedAt: time.Now().UnixMilli(), Name: "from Go",
		ContextRequirements: []string{"region"},
		Steps: []*escapementv1.PlanStep{{
			Id: stepID, Action: "echo", Payload: payload, OnFailure: escapementv1.PlanStep_skip,
		}},
	}
	environment, err := structpb.NewStruct(map[string]any{"region": "eu"})
	check(err == nil, "an environment: %v", err)
	answer, err := plans.ExecutePlan(ctx, &escapementv1.ExecutePlanRequest{Plan: plan, Environment: environment})
	check(err == nil, "a result: %v", err)
	result := answer.Result
	check(result.Status == escapementv1.PlanResult_success, "status %v", result.Status)
	check(result.CompletedAt > 1_700_000_000_000, "completed_at %d", result.CompletedAt)
	check(result.StepsExecuted == 1 && result.Error == nil, "%v", result)
	output := result.ResultPayload.Fields[stepID].GetStructValue().AsMap()
	check(output["n"] == 7.0, "the output %v", output)

	_, err = plans.ExecutePlan(ctx, &escapementv1.ExecutePlanRequest{Plan: &escapementv1.Plan{}})
	refused := status.Convert(err)
	check(refused.Code() == codes.InvalidArgument, "an empty plan: %v", err)
	var info *errdetails.ErrorInfo
	var request *errdetails.BadRequest
	for _, detail := range refused.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			info = detail
		case *errdetails.BadRequest:
			request = detail
		}
	}
	check(info.GetReason() == "INVALID_PAYLOAD" && info.GetDomain() == "escapement.dev", "%v", info)
	check(len(request.GetFieldViolations()) > 3, "%v", request)
	check(request.FieldViolations[0].Field == "plan.id", "%v", request.FieldViolations[0])

	large := &escapementv1.GetExecutionRequest{ExecutionId: largeID}
	_, err = plans.GetExecution(ctx, large)
	check(status.Code(err) == codes.ResourceExhausted, "more than a client takes by default: %v", err)
	found, err := plans.GetExecution(ctx, large, grpc.MaxCallRecvMsgSize(20<<20))
	check(err == nil, "a large result: %v", err)
	check(len(found.Execution.Result.ResultPayload.Fields) == 11, "eleven outputs")
	fmt.Println("held")
}

// Ends the program with what does not hold.
func check(holds bool, format string, values ...any) {
	if !holds {
		fmt.Fprintf(os.Stderr, format+"\n", values...)
		os.Exit(1)
	}
}
