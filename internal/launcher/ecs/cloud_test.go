package ecs

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	account = "123456789012"
	region  = "eu-central-1"
)

// cloud is a server that speaks as ECS, IAM, STS, EC2 and CloudWatch Logs do, in their protocols, and holds what they hold. It was
// written after their references; where those say nothing it does what AWS is known to.
type cloud struct {
	*httptest.Server
	t  *testing.T
	mu sync.Mutex

	clusters    map[string]*clusterRow
	definitions []*definitionRow
	tasks       []*taskRow
	roles       map[string]*roleRow
	logs        map[string]*logRow
	groups      map[string]*groupRow
	subnets     map[string]string // id -> VPC
	defaultVPC  string
	keys        map[string]string // access key id -> ARN of who that is
	serial      int

	callers []string                        // who made each call
	asked   map[string]bool                 // actions that were needed
	may     func(ask) bool                  // nil: everything
	trouble func(action string) *apiError   // before a call; nil: none
	assume  func(form url.Values) *apiError // checks an AssumeRole
	freshly int                             // how many calls a new role is not usable for

	calls, breakAt int
	after, broke   bool
	how            *apiError // what the broken call answers; nil: something that no library repeats
	hangUp         bool      // it answers nothing
}

// ask is one question to the policies of a caller.
type ask struct {
	action, resource string
	context          map[string]string
}

type apiError struct {
	code, message string
	status        int // 0: 400
	more          map[string]any
}

func failed(code, format string, args ...any) *apiError {
	return &apiError{code: code, message: fmt.Sprintf(format, args...)}
}

// call is one request as a handler sees it.
type call struct {
	*cloud
	caller string
	in     map[string]any // of JSON
	form   url.Values     // of the query protocols
}

type handler func(c *call) (any, *apiError)

// TestMain has the libraries of AWS know of nothing but the local cloud.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true", "AWS_SESSION_TOKEN": "",
		"AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "",
		"AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_ROLE_ARN": "", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func newCloud(t *testing.T) *cloud {
	c := &cloud{t: t, clusters: map[string]*clusterRow{}, roles: map[string]*roleRow{}, logs: map[string]*logRow{}, groups: map[string]*groupRow{},
		subnets: map[string]string{"subnet-0000000a": "vpc-default", "subnet-0000000b": "vpc-default", "subnet-0000000c": "vpc-other"}, defaultVPC: "vpc-default",
		keys: map[string]string{"AKIDTEST": "arn:aws:iam::" + account + ":user/launcher"}, asked: map[string]bool{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

var credential = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/[0-9]{8}/[^/]+/([a-z0-9]+)/aws4_request, SignedHeaders=[^,]+, Signature=[0-9a-f]{64}$`)

// versions are what the query protocols tell their services by.
var versions = map[string]string{"2010-05-08": "iam", "2011-06-15": "sts", "2016-11-15": "ec2"}

var targets = map[string]string{"AmazonEC2ContainerServiceV20141113": "ecs", "Logs_20140328": "logs"}

var handlers = map[string]handler{}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	one := &call{cloud: c}
	var service, operation string
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		of, name, _ := strings.Cut(target, ".")
		service, operation = targets[of], name
		if err := json.Unmarshal(body, &one.in); err != nil || r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
			c.t.Errorf("%s: %v, %s", target, err, r.Header.Get("Content-Type"))
		}
	} else {
		one.form, _ = url.ParseQuery(string(body))
		service, operation = versions[one.form.Get("Version")], one.form.Get("Action")
	}
	action := service + ":" + operation
	handle, ok := handlers[action]
	if !ok {
		c.t.Errorf("nobody handles %s (%s)", action, body)
	}
	c.calls++
	chosen := c.breakAt > 0 && c.calls == c.breakAt
	c.broke = c.broke || chosen
	var out any
	fault := c.authenticate(one, r, service, operation)
	switch {
	case fault != nil:
	case chosen && !c.after:
		fault = c.breaking()
	case c.trouble != nil && c.trouble(action) != nil:
		fault = c.trouble(action)
	default:
		out, fault = handle(one)
	}
	if chosen && c.after {
		fault = c.breaking()
	}
	if chosen && c.hangUp {
		panic(http.ErrAbortHandler)
	}
	answer(w, service, operation, out, fault)
}

func (c *cloud) breaking() *apiError {
	if c.how != nil {
		return c.how
	}
	return failed("Broken", "the call was made to fail")
}

// authenticate finds out who calls.
func (c *cloud) authenticate(one *call, r *http.Request, service, operation string) *apiError {
	if service+":"+operation == "sts:AssumeRoleWithWebIdentity" {
		return nil
	}
	m := credential.FindStringSubmatch(r.Header.Get("Authorization"))
	if m == nil || m[2] != service {
		return failed("MissingAuthenticationToken", "Request is missing Authentication Token")
	}
	if one.caller = c.keys[m[1]]; one.caller == "" {
		if service == "ec2" {
			return &apiError{code: "AuthFailure", message: "AWS was not able to validate the provided access credentials", status: 401}
		}
		return &apiError{code: "InvalidClientTokenId", message: "The security token included in the request is invalid.", status: 403}
	}
	c.callers = append(c.callers, one.caller)
	return nil
}

// need refuses what the caller may not.
func (c *call) need(action, resource string, context ...string) *apiError {
	c.asked[action] = true
	a := ask{action, resource, map[string]string{}}
	for i := 0; i+1 < len(context); i += 2 {
		a.context[context[i]] = context[i+1]
	}
	if c.may == nil || c.may(a) {
		return nil
	}
	said := fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s because no identity-based policy allows the %[2]s action", c.caller, action, resource)
	switch service, _, _ := strings.Cut(action, ":"); {
	case service == "ec2":
		return &apiError{code: "UnauthorizedOperation", message: "You are not authorized to perform this operation. " + said + ". Encoded authorization failure message: abc", status: 403}
	case c.form != nil:
		return &apiError{code: "AccessDenied", message: said, status: 403}
	}
	return failed("AccessDeniedException", "%s", said)
}

// answer writes as the service does.
func answer(w http.ResponseWriter, service, operation string, out any, fault *apiError) {
	if service == "ecs" || service == "logs" || service == "" {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if fault != nil {
			out = map[string]any{"__type": fault.code, "message": fault.message}
			maps.Copy(out.(map[string]any), fault.more)
			w.WriteHeader(max(fault.status, 400))
		}
		if out == nil {
			return // CloudWatch Logs says nothing where there is nothing to say
		}
		_ = json.NewEncoder(w).Encode(out)
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	inner, _ := out.(string)
	switch {
	case fault != nil && service == "ec2":
		w.WriteHeader(max(fault.status, 400))
		inner = el("Response", el("Errors", el("Error", el("Code", esc(fault.code)), el("Message", esc(fault.message)))), el("RequestID", "r"))
	case fault != nil:
		w.WriteHeader(max(fault.status, 400))
		inner = el("ErrorResponse", el("Error", el("Type", "Sender"), el("Code", esc(fault.code)), el("Message", esc(fault.message))), el("RequestId", "r"))
	case service == "ec2":
		inner = el(operation+"Response", el("requestId", "r"), inner)
	default:
		inner = el(operation+"Response", el(operation+"Result", inner), el("ResponseMetadata", el("RequestId", "r")))
	}
	_, _ = io.WriteString(w, xml.Header+inner)
}

func el(name string, inner ...string) string {
	return "<" + name + ">" + strings.Join(inner, "") + "</" + name + ">"
}

func esc(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

// str and list read an input of JSON; pairs reads tags.
func (c *call) str(key string) string { s, _ := c.in[key].(string); return s }

func (c *call) list(key string) (out []string) {
	items, _ := c.in[key].([]any)
	for _, item := range items {
		out = append(out, item.(string))
	}
	return out
}

func pairs(v any) map[string]string {
	tags := map[string]string{}
	items, _ := v.([]any)
	for _, item := range items {
		one := item.(map[string]any)
		tags[one["key"].(string)], _ = one["value"].(string)
	}
	return tags
}

func unpairs(tags map[string]string) []any {
	out := []any{}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, map[string]any{"key": key, "value": tags[key]})
	}
	return out
}

// members reads Name.1, Name.2 and so on, each with what follows it.
func (c *call) members(name string) (out []func(field string) string) {
	for i := 1; ; i++ {
		at := fmt.Sprintf("%s.%d", name, i)
		there := false
		for key := range c.form {
			there = there || key == at || strings.HasPrefix(key, at+".")
		}
		if !there {
			return out
		}
		out = append(out, func(field string) string { return c.form.Get(at + field) })
	}
}

func (c *cloud) next() int { c.serial++; return c.serial }

// pageOf cuts a list into pages of two.
func pageOf(all []string, token string) (page []string, next string) {
	from := 0
	_, _ = fmt.Sscanf(token, "from-%d", &from)
	to := min(len(all), from+2)
	if to < len(all) {
		next = fmt.Sprintf("from-%d", to)
	}
	return all[min(from, to):to], next
}
