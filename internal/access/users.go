package access

import (
	"context"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// User is a person who logs in to the dashboard with a name and a password. A program is a Principal.
type User struct {
	ID         string
	Name       string
	Role       catalog.Role
	CreatedAt  time.Time
	PasswordAt time.Time // when the password was set
	LastUsedAt time.Time // of the last log in; zero: not yet
}

// UserRoles are the roles of users, the mightiest first.
var UserRoles = []catalog.Role{catalog.RoleOwner, catalog.RoleOperator, catalog.RoleViewer}

const maxUsers = 10_000 // per Organization

func userOf(u store.User) User {
	return User{ID: u.ID, Name: u.Name, Role: catalog.Role(u.Role), CreatedAt: u.CreatedAt, PasswordAt: u.PasswordAt, LastUsedAt: u.LastUsedAt}
}

// Users lists the users by name.
func (a *Access) Users(ctx context.Context, actor catalog.Actor, pages ...store.Page) (all []User, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return nil, err
	}
	err = a.store.View(ctx, func(tx *store.Tx) error {
		stored, err := tx.Users(actor.OrganizationID, pages...)
		for _, u := range stored {
			all = append(all, userOf(u))
		}
		return err
	})
	return all, err
}

// CreateUser makes a user.
func (a *Access) CreateUser(ctx context.Context, actor catalog.Actor, name string, role catalog.Role, password string) (made User, err error) {
	if err := actor.Need(catalog.Administer); err != nil { // before the cost of a hash
		return made, err
	}
	if err := userProblems(name, role, password); err != nil {
		return made, err
	}
	hash, err := a.people.hasher.hash(ctx, password)
	if err != nil {
		return made, err
	}
	err = a.change(ctx, actor, func(tx *store.Tx) (string, string, ChangedEvent, error) {
		e := ChangedEvent{Action: "create", User: name, Role: string(role)}
		all, err := tx.Users(actor.OrganizationID)
		if err != nil {
			return "", "", e, err
		}
		if len(all) >= maxUsers {
			return "", "", e, fault.New(fault.Conflict, "too_many_users", "there are %d users already", len(all)).WithHint("delete some")
		}
		u := store.User{OrganizationID: actor.OrganizationID, Name: name, Role: string(role), Password: hash}
		err = tx.PutUser(&u)
		made = userOf(u)
		return userChanged, u.ID, e, err
	})
	return made, err
}

const userChanged = "user.changed"

// userProblems names everything that is wrong with a new user, by field.
func userProblems(name string, role catalog.Role, password string) error {
	var problems []fault.Problem
	if p := catalog.NameProblem(name); p != "" {
		problems = append(problems, fault.Problem{Field: "name", Message: "the name " + p})
	}
	if p := roleProblem(role); p != "" {
		problems = append(problems, fault.Problem{Field: "role", Message: p})
	}
	if p := passwordProblem(name, password); p != "" {
		problems = append(problems, fault.Problem{Field: "password", Message: p})
	}
	if len(problems) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "user_invalid", "%s", problems[0].Message).WithDetails(problems...)
}

func roleProblem(role catalog.Role) string {
	if slices.Contains(UserRoles, role) {
		return ""
	}
	return "the role is owner, operator or viewer"
}

// SetRole gives a user another role, which holds from its next request on. The last owner stays one.
func (a *Access) SetRole(ctx context.Context, actor catalog.Actor, idOrName string, role catalog.Role) error {
	if p := roleProblem(role); p != "" {
		return fault.New(fault.Invalid, "role_unknown", "%s", p).WithDetails(fault.Problem{Field: "role", Message: p})
	}
	return a.change(ctx, actor, func(tx *store.Tx) (string, string, ChangedEvent, error) {
		e := ChangedEvent{Action: "role", Role: string(role)}
		u, err := findUser(tx, actor.OrganizationID, idOrName)
		if err != nil {
			return "", "", e, err
		}
		e.User = u.Name
		if role != catalog.RoleOwner {
			if err := keepsOwnerBeside(tx, u); err != nil {
				return "", "", e, err
			}
		}
		u.Role = string(role)
		return userChanged, u.ID, e, tx.PutUser(&u)
	})
}

// SetPassword gives a user another password and ends its Web sessions. Who may not administer has to know the current one.
func (a *Access) SetPassword(ctx context.Context, actor catalog.Actor, idOrName, current, password string) error {
	u, err := a.userFor(ctx, actor, idOrName, current)
	if err != nil {
		return err
	}
	if p := passwordProblem(u.Name, password); p != "" {
		return passwordFault(p)
	}
	hash, err := a.people.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return a.record(ctx, actor, func(tx *store.Tx) (string, string, ChangedEvent, error) {
		e := ChangedEvent{Action: "password", User: u.Name}
		now, err := findUser(tx, actor.OrganizationID, u.ID)
		if err != nil {
			return "", "", e, err
		}
		now.Password, now.PasswordAt = hash, tx.Now()
		if err := tx.PutUser(&now); err != nil {
			return "", "", e, err
		}
		return userChanged, u.ID, e, tx.DeleteWebSessions(u.ID)
	})
}

// MaySetPassword returns a fault when an Actor may not set the password of a user. It does not check the current
// password.
func (a *Access) MaySetPassword(ctx context.Context, actor catalog.Actor, idOrName string) error {
	_, err := a.passwordOf(ctx, actor, idOrName)
	return err
}

// userFor returns the user whose password an Actor may set. Without the permission to administer, the Actor has to know
// the current password. A wrong one counts, and is noted, as a wrong log in.
func (a *Access) userFor(ctx context.Context, actor catalog.Actor, idOrName, current string) (u store.User, err error) {
	u, err = a.passwordOf(ctx, actor, idOrName)
	if err != nil || actor.Can(catalog.Administer) {
		return u, err
	}
	return u, a.checkCurrent(ctx, actor, u, current)
}

// passwordOf returns the user whose password an Actor may set: any user for who may administer, otherwise the Actor
// itself.
func (a *Access) passwordOf(ctx context.Context, actor catalog.Actor, idOrName string) (u store.User, err error) {
	if err := actor.Need(catalog.Read); err != nil {
		return u, err
	}
	err = a.store.View(ctx, func(tx *store.Tx) error {
		u, err = findUser(tx, actor.OrganizationID, idOrName)
		return err
	})
	if actor.Can(catalog.Administer) {
		return u, err
	}
	if fault.Is(err, fault.NotFound) || (err == nil && u.ID != actor.ID) {
		return store.User{}, fault.New(fault.Forbidden, "not_your_password", "you may set your own password only").
			WithHint("ask an owner to set it: legwork user set-password")
	}
	return u, err
}

// checkCurrent checks the current password of a user.
func (a *Access) checkCurrent(ctx context.Context, actor catalog.Actor, u store.User, current string) error {
	a.note(ctx, throttleName(u, ""), actor.Address, "")
	try, err := a.throttle.attempt(throttleName(u, ""), actor.Address, "", a.now())
	if err != nil {
		return err
	}
	right, err := a.people.check(ctx, u.Password, current)
	if right || err != nil {
		try.giveBack(a.now())
	}
	if right || err != nil {
		return err
	}
	a.log.Warn("current password refused", "user", u.Name, "address", actor.Address)
	if err := a.noteRefused(ctx, u, unknownUser, actor.Address); err != nil {
		return err
	}
	return fault.New(fault.Invalid, "password_wrong", "the current password is wrong").
		WithHint("an owner can set another one: legwork user set-password").WithDetails(fault.Problem{Field: "current", Message: "this is not the current password"})
}

// DeleteUser deletes a user, by id or name; its Web sessions end. The last owner stays.
func (a *Access) DeleteUser(ctx context.Context, actor catalog.Actor, idOrName string) error {
	return a.change(ctx, actor, func(tx *store.Tx) (string, string, ChangedEvent, error) {
		e := ChangedEvent{Action: "delete"}
		u, err := findUser(tx, actor.OrganizationID, idOrName)
		if err != nil {
			return "", "", e, err
		}
		e.User = u.Name
		if err := keepsOwnerBeside(tx, u); err != nil {
			return "", "", e, err
		}
		return userChanged, u.ID, e, tx.DeleteUser(u.OrganizationID, u.ID)
	})
}

func findUser(tx *store.Tx, org, idOrName string) (store.User, error) {
	u, err := tx.User(org, idOrName)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "user_not_found", "there is no user %q", idOrName).WithHint("see legwork user list")
	}
	return u, err
}

// anotherOwner tells whether a user other than the one with that id is an owner.
func anotherOwner(tx *store.Tx, org, but string) (bool, error) {
	all, err := tx.Users(org)
	return slices.ContainsFunc(all, func(u store.User) bool { return u.Role == string(catalog.RoleOwner) && u.ID != but }), err
}

// keepsOwnerBeside refuses to take away the last user by whom an owner can come in, unless a Credential is left for that.
func keepsOwnerBeside(tx *store.Tx, u store.User) error {
	if u.Role != string(catalog.RoleOwner) {
		return nil
	}
	if there, err := anotherOwner(tx, u.OrganizationID, u.ID); there || err != nil {
		return err
	}
	all, err := tx.Principals(u.OrganizationID)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Role != string(catalog.RoleOwner) {
			continue
		}
		credentials, err := tx.Credentials(p.OrganizationID, p.ID)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(credentials, func(c store.Credential) bool { return !over(c, tx.Now()) }) {
			return nil
		}
	}
	return fault.New(fault.Conflict, "last_owner", "%s is the last owner who can come in", u.Name).
		WithHint("make another owner first: legwork user create NAME --role owner")
}
