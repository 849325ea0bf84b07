package kubernetes_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"legwork/internal/launcher"
)

// user is whom the cluster knows the launcher as.
const user = "system:serviceaccount:legwork:legwork-launcher"

// fakeCluster answers as the Kubernetes API reference documents for what the launcher asks of it. It holds Jobs, Pods, Secrets, Events and
// service accounts of namespaces, and does at once what controllers, the garbage collector and nodes do in their time. It runs nothing.
type fakeCluster struct {
	t          *testing.T
	kubeconfig string
	mu         sync.Mutex
	namespaces []string
	jobs       map[string]*batch.Job // by "namespace/name"
	pods       map[string]*core.Pod
	secrets    map[string]*core.Secret
	events     []core.Event
	accounts   []string
	logs       map[string]string // by Unit
	forbidden  []string          // "create jobs.batch"
	quota      string            // of Jobs: what it says
	podQuota   string            // of Pods
	pull       string            // what nodes say of the image
	unplaced   bool              // no node has room
	stuck      bool              // nodes do not answer: Pods do not end
	warning    string
	refuse     map[string]func(http.ResponseWriter)
	used       map[string]bool // "create jobs.batch": what was asked for, by verb and resource
	n, seen    int
	after      bool
	broke      bool
	made       int
}

func newCluster(t *testing.T) *fakeCluster {
	t.Helper()
	c := &fakeCluster{t: t, namespaces: []string{"legwork"}, jobs: map[string]*batch.Job{}, pods: map[string]*core.Pod{}, secrets: map[string]*core.Secret{},
		logs: map[string]string{}, refuse: map[string]func(http.ResponseWriter){}, used: map[string]bool{}}
	server := httptest.NewTLSServer(c) // credentials are not sent in the clear
	t.Cleanup(server.Close)
	c.kubeconfig = filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "one",
"clusters": [{"name": "here", "cluster": {"server": %q, "certificate-authority-data": %q}}], "users": [{"name": "me", "user": {"token": "opaque"}}],
"contexts": [{"name": "one", "context": {"cluster": "here", "user": "me"}}]}`, server.URL, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	if err := os.WriteFile(c.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// ServeHTTP breaks the call that is to break, and else does it.
func (c *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen++
	breaks := c.n > 0 && c.seen == c.n
	c.broke = c.broke || breaks
	c.sync()
	switch {
	case breaks && c.after:
		c.serve(httptest.NewRecorder(), r)
		fallthrough
	case breaks:
		c.fail(w, apierrors.NewInternalError(errors.New("an injected fault")))
	default:
		c.serve(w, r)
	}
	c.sync()
}

var path = regexp.MustCompile(`^/(?:api|apis/([^/]+))/v1(?:/namespaces/([^/]+))?/([a-z]+)(?:/([^/]+)(?:/([a-z]+))?)?$`)

// request is a call as RBAC sees it.
type request struct {
	verb, group, namespace, resource, name, part string
}

func (q request) String() string {
	s := q.verb + " " + q.resource
	if q.group != "" {
		s += "." + q.group
	}
	if q.part != "" {
		s += "/" + q.part
	}
	return s
}

func (q request) gr() schema.GroupResource {
	return schema.GroupResource{Group: q.group, Resource: q.resource}
}

func (c *fakeCluster) serve(w http.ResponseWriter, r *http.Request) {
	m := path.FindStringSubmatch(r.URL.Path)
	if m == nil {
		c.t.Errorf("the cluster has no %s %s", r.Method, r.URL)
		c.fail(w, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path))
		return
	}
	q := request{verb: map[string]string{"POST": "create", "GET": "get", "DELETE": "delete"}[r.Method], group: m[1], namespace: m[2], resource: m[3], name: m[4], part: m[5]}
	if q.verb == "get" && q.name == "" {
		q.verb = "list"
	}
	if r.Header.Get("Authorization") != "Bearer opaque" {
		c.fail(w, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	c.used[q.String()] = true
	if c.warning != "" {
		w.Header().Set("Warning", fmt.Sprintf("299 - %q", c.warning))
	}
	if refuse := c.refuse[q.String()]; refuse != nil {
		refuse(w)
		return
	}
	if slices.Contains(c.forbidden, q.String()) {
		c.fail(w, apierrors.NewForbidden(q.gr(), q.name, fmt.Errorf("User %q cannot %s resource %q in API group %q in the namespace %q", user, q.verb, q.resource, q.group, q.namespace)))
		return
	}
	c.route(w, r, q)
}

func (c *fakeCluster) route(w http.ResponseWriter, r *http.Request, q request) {
	switch q.String() {
	case "create selfsubjectaccessreviews.authorization.k8s.io":
		c.review(w, r)
	case "create jobs.batch":
		c.createJob(w, r, q)
	case "create secrets":
		c.createSecret(w, r, q)
	case "get jobs.batch":
		give(c, w, q, c.jobs)
	case "list jobs.batch":
		list(c, w, r, q, c.jobs, func(items []batch.Job, m meta.ListMeta) any {
			return batch.JobList{TypeMeta: meta.TypeMeta{Kind: "JobList", APIVersion: "batch/v1"}, ListMeta: m, Items: items}
		})
	case "list pods":
		list(c, w, r, q, c.pods, func(items []core.Pod, m meta.ListMeta) any {
			return core.PodList{TypeMeta: meta.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: m, Items: items}
		})
	case "delete jobs.batch":
		c.delete(w, r, q)
	case "delete pods":
		c.delete(w, r, q)
	case "get pods/log":
		if pod := c.pods[q.namespace+"/"+q.name]; pod != nil {
			c.log(w, r, pod)
			return
		}
		c.fail(w, apierrors.NewNotFound(q.gr(), q.name))
	case "list events":
		c.listEvents(w, r)
	case "get serviceaccounts":
		if !slices.Contains(c.accounts, q.name) {
			c.fail(w, apierrors.NewNotFound(q.gr(), q.name))
			return
		}
		c.json(w, 200, core.ServiceAccount{TypeMeta: meta.TypeMeta{Kind: "ServiceAccount", APIVersion: "v1"}, ObjectMeta: meta.ObjectMeta{Name: q.name, Namespace: q.namespace}})
	default:
		c.t.Errorf("the cluster is asked to %s", q)
		c.fail(w, apierrors.NewMethodNotSupported(q.gr(), q.verb))
	}
}

func (c *fakeCluster) json(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (c *fakeCluster) fail(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	c.json(w, int(status.Code), status)
}

// read reads the object of a request as strictly as fieldValidation=Strict does, and names what its metadata breaks.
func (c *fakeCluster) read(r *http.Request, into any, object meta.Object, q request) *apierrors.StatusError {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	var wrong []string
	if !slices.Contains(c.namespaces, q.namespace) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, q.namespace)
	}
	if object.GetNamespace() != "" && object.GetNamespace() != q.namespace {
		wrong = append(wrong, "the namespace of the object does not match that of the request")
	}
	for key, value := range object.GetLabels() {
		wrong = append(wrong, append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)...)
	}
	for key := range object.GetAnnotations() {
		wrong = append(wrong, validation.IsQualifiedName(key)...)
	}
	wrong = append(wrong, validation.IsDNS1123Subdomain(object.GetName())...)
	if len(wrong) > 0 {
		return apierrors.NewBadRequest(strings.Join(wrong, "; "))
	}
	return nil
}

func (c *fakeCluster) createJob(w http.ResponseWriter, r *http.Request, q request) {
	var job batch.Job
	if err := c.read(r, &job, &job, q); err != nil {
		c.fail(w, err)
		return
	}
	if wrong := validation.IsDNS1123Label(job.Name); len(wrong) > 0 {
		c.fail(w, apierrors.NewBadRequest(wrong[0]))
		return
	}
	if c.quota != "" {
		c.fail(w, apierrors.NewForbidden(q.gr(), job.Name, errors.New(c.quota)))
		return
	}
	key := q.namespace + "/" + job.Name
	if c.jobs[key] != nil {
		c.fail(w, apierrors.NewAlreadyExists(q.gr(), job.Name))
		return
	}
	job.TypeMeta = meta.TypeMeta{Kind: "Job", APIVersion: "batch/v1"}
	job.UID, job.Namespace = c.uid(), q.namespace
	if r.URL.Query().Get("dryRun") != "All" {
		c.jobs[key] = &job
	}
	c.json(w, http.StatusCreated, job)
}

func (c *fakeCluster) createSecret(w http.ResponseWriter, r *http.Request, q request) {
	var secret core.Secret
	if err := c.read(r, &secret, &secret, q); err != nil {
		c.fail(w, err)
		return
	}
	key := q.namespace + "/" + secret.Name
	if c.secrets[key] != nil {
		c.fail(w, apierrors.NewAlreadyExists(q.gr(), secret.Name))
		return
	}
	secret.TypeMeta, secret.UID, secret.Namespace, secret.Data = meta.TypeMeta{Kind: "Secret", APIVersion: "v1"}, c.uid(), q.namespace, map[string][]byte{}
	for name, value := range secret.StringData {
		if wrong := validation.IsConfigMapKey(name); len(wrong) > 0 {
			c.fail(w, apierrors.NewBadRequest(wrong[0]))
			return
		}
		secret.Data[name] = []byte(value)
	}
	secret.StringData = nil
	c.secrets[key] = &secret
	c.json(w, http.StatusCreated, secret)
}

func (c *fakeCluster) uid() types.UID {
	c.made++
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", c.made))
}

func (c *fakeCluster) review(w http.ResponseWriter, r *http.Request) {
	var review authorization.SelfSubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		c.fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	a := review.Spec.ResourceAttributes
	asked := request{verb: a.Verb, group: a.Group, resource: a.Resource, part: a.Subresource}
	review.TypeMeta = meta.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"}
	review.Status.Allowed = a.Namespace != "" && !slices.Contains(c.forbidden, asked.String())
	c.json(w, http.StatusCreated, review)
}

func give[T any](c *fakeCluster, w http.ResponseWriter, q request, all map[string]*T) {
	if found := all[q.namespace+"/"+q.name]; found != nil {
		c.json(w, 200, found)
		return
	}
	c.fail(w, apierrors.NewNotFound(q.gr(), q.name))
}

// list gives a page of what a label selector selects. One of a namespace that is not there is empty.
func list[T any, P interface {
	*T
	meta.Object
}](c *fakeCluster, w http.ResponseWriter, r *http.Request, q request, all map[string]*T, answer func([]T, meta.ListMeta) any) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		c.fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	items := []T{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if P(all[key]).GetNamespace() == q.namespace && selector.Matches(labels.Set(P(all[key]).GetLabels())) {
			items = append(items, *all[key])
		}
	}
	m := meta.ListMeta{ResourceVersion: "1"}
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	items = items[min(from, len(items)):]
	if limit, _ := strconv.Atoi(r.URL.Query().Get("limit")); limit > 0 && len(items) > limit {
		items, m.Continue = items[:limit], strconv.Itoa(from+limit)
	}
	c.json(w, 200, answer(items, m))
}

func (c *fakeCluster) listEvents(w http.ResponseWriter, r *http.Request) {
	selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil {
		c.fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	events := core.EventList{TypeMeta: meta.TypeMeta{Kind: "EventList", APIVersion: "v1"}, Items: []core.Event{}}
	for _, e := range c.events {
		if selector.Matches(fields.Set{"involvedObject.uid": string(e.InvolvedObject.UID), "reason": e.Reason}) {
			events.Items = append(events.Items, e)
		}
	}
	c.json(w, 200, events)
}

func (c *fakeCluster) log(w http.ResponseWriter, r *http.Request, pod *core.Pod) {
	lines := strings.SplitAfter(c.logs[pod.Annotations[launcher.TagUnit]], "\n")
	n, err := strconv.Atoi(r.URL.Query().Get("tailLines"))
	if err != nil || r.URL.Query().Get("limitBytes") == "" {
		c.t.Error("a whole log is asked for")
	}
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprint(w, strings.Join(lines[max(0, len(lines)-1-n):], ""))
}

func (c *fakeCluster) delete(w http.ResponseWriter, r *http.Request, q request) {
	var options meta.DeleteOptions
	if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
		c.fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	key := q.namespace + "/" + q.name
	var object meta.Object
	if job := c.jobs[key]; q.resource == "jobs" && job != nil {
		object = job
	} else if pod := c.pods[key]; q.resource == "pods" && pod != nil {
		object = pod
	}
	switch {
	case object == nil:
		c.fail(w, apierrors.NewNotFound(q.gr(), q.name))
		return
	case options.Preconditions != nil && *options.Preconditions.UID != object.GetUID():
		c.fail(w, apierrors.NewConflict(q.gr(), q.name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s)", *options.Preconditions.UID, object.GetUID())))
		return
	}
	now := meta.NewTime(time.Unix(1_800_000_000, 0))
	object.SetDeletionTimestamp(&now)
	switch {
	case q.resource == "pods":
		object.SetDeletionGracePeriodSeconds(options.GracePeriodSeconds)
	case options.PropagationPolicy == nil || *options.PropagationPolicy != meta.DeletePropagationForeground:
		delete(c.jobs, key)
	}
	c.json(w, 200, object)
}
