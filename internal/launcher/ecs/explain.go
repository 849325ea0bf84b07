package ecs

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

// hasCode tells whether AWS answered with one of the codes.
func hasCode(err error, codes ...string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && slices.Contains(codes, api.ErrorCode())
}

// What AWS calls the same in its services. EC2 and IAM have codes of their own for most.
var (
	deniedCodes     = []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NotAuthorized"}
	unknownCodes    = []string{"InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "InvalidSignatureException", "AuthFailure", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature", "MissingAuthenticationToken", "InvalidIdentityToken"}
	throttleCodes   = []string{"Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException", "RequestLimitExceeded", "TooManyRequestsException", "PriorRequestNotComplete", "BandwidthLimitExceeded", "EC2ThrottledException"}
	quotaCodes      = []string{"LimitExceeded", "LimitExceededException", "SecurityGroupLimitExceeded", "VpcLimitExceeded", "ResourceLimitExceeded", "ServiceQuotaExceededException"}
	transitionCodes = []string{"UpdateInProgressException", "ConcurrentModification", "ConcurrentModificationException", "OperationAbortedException", "EntityTemporarilyUnmodifiable", "DependencyViolation", "ClusterContainsTasksException", "ConflictException"}
)

// explain makes a fault of an error of AWS.
func (s *session) explain(err error) error {
	var known *fault.Fault
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	operation := operationOf(err)
	f := func(kind fault.Kind, code, format string, args ...any) *fault.Fault {
		return fault.New(kind, code, format, args...).WithCause(err)
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return s.unanswered(err, operation)
	}
	said, code := clip(api.ErrorMessage()), api.ErrorCode()
	switch {
	case slices.Contains(deniedCodes, code):
		return denied(operation, api.ErrorMessage()).WithCause(err)
	case slices.Contains(unknownCodes, code):
		return f(fault.Unauthenticated, "launcher_credentials", "AWS in %s does not know who asks (%s): %s", s.region, code, said).
			WithHint("look at the keys or the token of the cloud identity, at the clock of the launcher's host, and whether the account has the region %s enabled", s.region)
	case strings.Contains(said, "limit on the number of"), slices.Contains(quotaCodes, code): // of Fargate, under the code of a throttling
		return f(fault.Conflict, "launcher_quota", "a quota of AWS in %s is used up at %s: %s", s.region, operation, said).
			WithHint("remove what is not needed, or have the quota raised: Service Quotas in the AWS console, region %s", s.region)
	case slices.Contains(throttleCodes, code):
		return f(fault.RateLimited, "launcher_throttled", "AWS has %s wait: too many requests", operation)
	case outOfCapacity(said):
		return noCapacity(s.region, said).WithCause(err)
	case passes(code, said):
		return f(fault.Unavailable, "launcher_not_yet", "AWS is not that far at %s: %s", operation, said)
	case broken(err, code):
		return f(fault.Unavailable, "launcher_failing", "AWS fails at %s (%s): %s", operation, code, said)
	}
	return f(fault.Failed, "launcher_refused", "AWS refuses %s (%s): %s", operation, code, said)
}

// unanswered is an error that no service of AWS answered with.
func (s *session) unanswered(err error, operation string) error {
	if why := err.Error(); strings.Contains(why, "failed to refresh cached credentials") || strings.Contains(why, "get identity") || strings.Contains(why, "unable to retrieve jwt") {
		said := "the launcher's host has no credentials for AWS"
		if !strings.Contains(why, "no EC2 IMDS role found") { // the last place that is looked in says nothing of what was forgotten
			said += ": " + clip(why)
		}
		return fault.New(fault.Unauthenticated, "launcher_credentials", "%s", said).WithCause(err).
			WithHint("give the Runner a cloud identity with a role or access keys: legwork cloud-identity set, or give the launcher's host an instance profile")
	}
	return fault.New(fault.Unavailable, "launcher_unreachable", "AWS in %s does not answer %s", s.region, operation).WithCause(err).
		WithHint("is the launcher's host online, and may it reach the endpoints of AWS?")
}

// passes tells what becomes right by itself: a role that is not known everywhere yet, a resource that is being changed.
func passes(code, said string) bool {
	if slices.Contains(transitionCodes, code) {
		return true
	}
	for _, sign := range []string{"unable to assume the role", "Unable to assume the service linked role", "Role is not valid", "role is not valid", "was inactive", "is inactive"} {
		if strings.Contains(said, sign) {
			return true
		}
	}
	return slices.Contains([]string{"ClusterNotFoundException"}, code)
}

func broken(err error, code string) bool {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode() >= http.StatusInternalServerError {
		return true
	}
	return slices.Contains([]string{"InternalError", "InternalFailure", "ServerException", "ServiceFailure", "ServiceUnavailable", "ServiceUnavailableException", "Unavailable"}, code)
}

// outOfCapacity tells the reasons of RunTask, and of tasks that stopped, that mean: not now.
func outOfCapacity(reason string) bool {
	return strings.HasPrefix(reason, "RESOURCE:") || strings.Contains(reason, "Capacity is unavailable") || strings.Contains(reason, "capacity is unavailable")
}

func noCapacity(region, said string) *fault.Fault {
	return fault.New(fault.Unavailable, "launcher_capacity", "Fargate in %s has no capacity now: %s", region, said).
		WithHint("it is tried again; subnets in several availability zones, or another size, find it sooner")
}

var notAuthorized = lazyregexp.New(`not authorized to perform:? ([a-zA-Z0-9-]+:[a-zA-Z0-9]+)(?: on resource:? (\S+))?`)

// denied names what is missing as AWS does, and the statement that gives it.
func denied(operation, said string) *fault.Fault {
	action, resource := operation, "*"
	if m := notAuthorized.FindStringSubmatch(said); m != nil {
		action = m[1]
		if m[2] != "" {
			resource = strings.TrimRight(m[2], ".,")
		}
	}
	if resource == "*" {
		return fault.New(fault.Forbidden, "launcher_denied", "AWS denies %s", action).WithHint("%s", grant([]string{action}, resource))
	}
	return fault.New(fault.Forbidden, "launcher_denied", "AWS denies %s on %s", action, resource).WithHint("%s", grant([]string{action}, resource))
}

// grant gives the statement to add to a policy.
func grant(actions []string, resource string) string {
	statement, _ := json.Marshal(struct { // of texts alone
		Effect   string
		Action   []string
		Resource string
	}{"Allow", actions, resource})
	return grantBegins + string(statement) + grantEnds
}

// What stands around the statements of grant.
const (
	grantBegins = "add to the policy of the identity that launches: "
	grantEnds   = "; all that a launcher needs is in deploy/aws/launcher-policy.json"
)

// prefixes are what policies call the services.
var prefixes = map[string]string{"ECS": "ecs", "IAM": "iam", "CloudWatch Logs": "logs", "EC2": "ec2", "STS": "sts"}

// operationOf names the call that failed as policies do: ecs:RunTask.
func operationOf(err error) string {
	var op *smithy.OperationError
	if !errors.As(err, &op) {
		return "a call"
	}
	return prefixes[op.Service()] + ":" + op.Operation()
}

// clip bounds what AWS says, on one line.
func clip(said string) string {
	said = strings.Join(strings.Fields(said), " ")
	if len(said) <= 500 {
		return said
	}
	return strings.ToValidUTF8(said[:500], "") + "…"
}
