package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"legwork/internal/fault"
)

// MaxInstanceName is the length of the name of an Instance, in bytes.
const MaxInstanceName = 128

// LocalRunner is the name of the Runner record of the Server's own Runner.
const LocalRunner = "local"

// ServerRegistrar is the Registrar.ID with which a Server registers its own Runner. Records made with it are ServerOwned.
const ServerRegistrar = "local-runner"

// SettingRegistrar begins the Registrar.ID of a Server's own setting, which allows any labels.
const SettingRegistrar = "setting:"

// ReservedName returns a fault when a Runner record may not have the name of a RunnerSpec: launcher Jobs, with cloud secrets
// and bootstrap tokens, go to the Runner named LocalRunner, which therefore is the Server's own.
func (r Runner) ReservedName(spec RunnerSpec) error {
	switch {
	case spec.Name == LocalRunner && !r.ServerOwned:
		return fault.New(fault.Invalid, "runner_name_reserved", "the name %q is reserved for the Server's own runner", LocalRunner).
			WithHint("choose another name; the Server makes the record of its own runner when local_runner is on or a hosted runner needs it")
	case spec.Name != LocalRunner && r.ServerOwned:
		return fault.New(fault.Invalid, "runner_name_reserved", "the Server's own runner keeps the name %q", LocalRunner).
			WithHint("leave its name as it is")
	}
	return nil
}

// Registrar is a registration token, as it was authenticated: on whose behalf Runners register themselves.
type Registrar struct {
	OrganizationID string
	ID             string // of the token; what registered a Runner once may register it again
	Name           string // for people and the audit
	Address        string // that the request came from
	Stored         bool   // its uses are counted; the Server's own setting is not
	AnyLabels      bool
	Labels         map[string]string // those that a Runner may have
	GiveLabels     bool              // it gets all of them
	Launch         string            // of a bootstrap token: the id of the launch that it is for
}

// Registration is what a Runner says of itself when it registers.
type Registration struct {
	Name                   string            `json:"name" maxLength:"63"`
	Instance               string            `json:"instance,omitempty" maxLength:"128" doc:"Name of the process among those of its Runner. Needed with allow_multiple_instances."`
	Description            string            `json:"description,omitempty" maxLength:"2000"`
	Labels                 map[string]string `json:"labels,omitempty" doc:"Among those that the token allows."`
	OS                     OS                `json:"os,omitempty"`
	Lifetime               Lifetime          `json:"lifetime,omitempty"`
	AllowMultipleInstances bool              `json:"allow_multiple_instances,omitempty"`
	MaxParallelJobs        int               `json:"max_parallel_jobs,omitempty"`
	Webhook                string            `json:"webhook,omitempty"`
	Nonce                  string            `json:"nonce,omitempty" minLength:"16" maxLength:"64" doc:"At random, and the same when this request is made again because there was no answer: then that costs no use of the token."`
}

// Validate names every problem of the Registration in one Invalid Fault, or gives nil.
func (r Registration) Validate() error {
	problems := r.Over(RunnerSpec{}).problems()
	if len(r.Instance) > MaxInstanceName || !printable(r.Instance) {
		problems = append(problems, fault.Problem{Field: "instance", Message: fmt.Sprintf("wants at most %d printable letters", MaxInstanceName)})
	}
	if n := len(r.Nonce); n > 0 && (n < 16 || n > 64) {
		problems = append(problems, fault.Problem{Field: "nonce", Message: "wants 16 to 64 letters"})
	}
	if r.AllowMultipleInstances && strings.TrimSpace(r.Instance) == "" {
		problems = append(problems, fault.Problem{Field: "instance", Message: "is missing: a Runner of several Instances has a credential for each"})
	}
	return specFault("registration_invalid", "runner "+r.Name, problems)
}

// Over gives the RunnerSpec that the Registration makes of one that is there: what an owner alone decides stays, above all
// whether all Modules may use it.
func (r Registration) Over(spec RunnerSpec) RunnerSpec {
	spec.Name, spec.Description, spec.Labels, spec.OS, spec.Lifetime = r.Name, r.Description, r.Labels, r.OS, r.Lifetime
	spec.AllowMultipleInstances, spec.MaxParallelJobs, spec.Webhook = r.AllowMultipleInstances, r.MaxParallelJobs, r.Webhook
	return spec
}

// LabelsFor gives the labels of a Runner that asks for some, or refuses those that the token does not allow.
func (r Registrar) LabelsFor(asked map[string]string) (map[string]string, error) {
	if r.AnyLabels {
		return asked, nil
	}
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		if allowed, ok := r.Labels[key]; !ok || allowed != asked[key] {
			return nil, fault.New(fault.Forbidden, "label_not_allowed", "the registration token does not allow the label %s=%s", brief(key), brief(asked[key])).
				WithHint("leave it out of Runner.Labels, or have a token made that allows it: legwork runner token create --label")
		}
	}
	if r.GiveLabels {
		return r.Labels, nil
	}
	return asked, nil
}

// RegistrationRefused is what a registration token gets that is wrong, expired, used up or revoked. Which of these it is,
// only an owner learns.
func RegistrationRefused() *fault.Fault {
	return fault.New(fault.Unauthenticated, "registration_refused", "the registration token is wrong, expired, used up or revoked").
		WithHint("ask an owner for another one: legwork runner token create")
}
