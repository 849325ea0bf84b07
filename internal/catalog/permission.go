package catalog

import (
	"slices"

	"legwork/internal/fault"
)

// Role is what a person or a program may do in an Organization.
type Role string

// The roles. A Runner's own principal has RoleRunner and may do nothing but connect.
const (
	RoleOwner    Role = "owner"    // everything
	RoleOperator Role = "operator" // runs, cancels and approves Jobs; declares nothing
	RoleViewer   Role = "viewer"   // reads, sensitive values excepted
	RoleRunner   Role = "runner"   // connects as a Runner
)

// Permission is one thing that a request may need.
type Permission string

// The permissions.
const (
	Read          Permission = "read"
	ReadSensitive Permission = "read_sensitive" // sensitive outputs
	Declare       Permission = "declare"        // Stacks, Namespaces, Modules, Nodes, Node sources, Runbooks
	Operate       Permission = "operate"        // submit, cancel, approve Jobs
	Administer    Permission = "administer"     // Runners, Assignments, principals, credentials
	Connect       Permission = "connect"        // as a Runner
)

var granted = map[Role][]Permission{
	RoleOwner:    {Read, ReadSensitive, Declare, Operate, Administer},
	RoleOperator: {Read, ReadSensitive, Operate},
	RoleViewer:   {Read},
	RoleRunner:   {Connect},
}

// Actor is who makes a request, as it was authenticated.
type Actor struct {
	OrganizationID string
	ID             string // of the principal
	Name           string // for people and the audit
	Role           Role
	CredentialID   string // that it showed; empty for a user
	Address        string // that the request came from, as far as it is known; for the audit
}

// Can tells whether the Actor has a permission. Whatever is not granted is denied.
func (a Actor) Can(p Permission) bool { return slices.Contains(granted[a.Role], p) }

// Need returns a fault.Forbidden that names the permission when the Actor does not have it.
func (a Actor) Need(p Permission) error {
	if a.Can(p) {
		return nil
	}
	return fault.New(fault.Forbidden, "not_allowed", "%q with role %q may not do this: it needs the permission %q", a.Name, a.Role, p).
		WithHint("ask an owner of the Organization, or use another token")
}
