// A caller in Go that comes by mutual TLS and shows a token: is refused without the token, and runs one plan with it.
//
// Arguments: host and port of the orchestrator, files of the authority, the certificate, its key and the token, a new plan id
// and a step id.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	escapementv1 "escapement.dev/proto/escapement/v1"
)

// The token of a file, read at each call, so that another one can take its place.
type bearer string

func (file bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := os.ReadFile(string(file))
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(token))}, err
}

// The token is a secret: grpc shows it over TLS alone.
func (bearer) RequireTransportSecurity() bool { return true }

func main() {
	address, ca, cert, key, token := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	planID, stepID := os.Args[6], os.Args[7]
	roots := x509.NewCertPool()
	authority, err := os.ReadFile(ca)
	check(err == nil && roots.AppendCertsFromPEM(authority), "the authority: %v", err)
	pair, err := tls.LoadX509KeyPair(cert, key)
	check(err == nil, "the certificate: %v", err)
	encrypted := grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: roots, Certificates: []tls.Certificate{pair},
	}))

	payload, err := structpb.NewStruct(map[string]any{"n": 7})
	check(err == nil, "a payload: %v", err)
	environment, err := structpb.NewStruct(map[string]any{"region": "eu"})
	check(err == nil, "an environment: %v", err)
	request := &escapementv1.ExecutePlanRequest{
		Plan: &escapementv1.Plan{
			Id: planID, Version: 1, CreatedAt: time.Now().UnixMilli(), Name: "from Go",
			ContextRequirements: []string{"region"},
			Steps:               []*escapementv1.PlanStep{{Id: stepID, Action: "echo", Payload: payload}},
		},
		Environment: environment,
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	_, err = call(ctx, request, address, encrypted)
	check(status.Code(err) == codes.PermissionDenied, "without its token: %v", err)
	var info *errdetails.ErrorInfo
	for _, detail := range status.Convert(err).Details() {
		if found, ok := detail.(*errdetails.ErrorInfo); ok {
			info = found
		}
	}
	check(info.GetReason() == "ROLE_MISSING", "%v", info)

	result, err := call(ctx, request, address, encrypted, grpc.WithPerRPCCredentials(bearer(token)))
	check(err == nil, "a result: %v", err)
	check(result.Status == escapementv1.PlanResult_success, "status %v", result.Status)
	output := result.ResultPayload.Fields[stepID].GetStructValue().AsMap()
	check(output["n"] == 7.0, "the output %v", output)
	fmt.Println("held")
}

// Executes a plan over a connection of its own.
func call(
	ctx context.Context, request *escapementv1.ExecutePlanRequest, address string, options ...grpc.DialOption,
) (*escapementv1.PlanResult, error) {
	connection, err := grpc.NewClient(address, options...)
	check(err == nil, "a connection: %v", err)
	defer connection.Close()
	answer, err := escapementv1.NewPlanExecutionServiceClient(connection).ExecutePlan(ctx, request)
	return answer.GetResult(), err
}

// Ends the program with what does not hold.
func check(holds bool, format string, values ...any) {
	if !holds {
		fmt.Fprintf(os.Stderr, format+"\n", values...)
		os.Exit(1)
	}
}
