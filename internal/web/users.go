package web

import (
	"time"

	"legwork/internal/access"
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

func usersPage() page {
	return page{path: "/users", nav: "/users", need: catalog.Administer, kinds: []string{"user."}, load: func(v *visit) (content, error) {
		users, err := v.Access.Users(v.ctx, v.actor)
		if err != nil {
			return content{}, err
		}
		sorted := sortList(v, users,
			column[access.User]{"name", byText(func(u access.User) string { return u.Name })},
			column[access.User]{"role", byText(func(u access.User) string { return string(u.Role) })},
			column[access.User]{"used", byTime(func(u access.User) time.Time { return u.LastUsedAt })},
			column[access.User]{"password", byTime(func(u access.User) time.Time { return u.PasswordAt })},
			column[access.User]{"created", byTime(func(u access.User) time.Time { return u.CreatedAt })},
		)
		c := content{title: "Users", body: usersBody(v, users, sorted)}
		c.parts = []part{{id: "users", body: userRows(v, users), rows: []part{}}}
		for _, u := range users {
			c.parts[0].rows = append(c.parts[0].rows, part{id: "user-" + u.ID, body: userRow(v, u)})
		}
		return c, nil
	}}
}

var roleOptions = []option{
	{"owner", "Owner", "May do everything, users and Runners included."},
	{"operator", "Operator", "Submits, cancels and approves Jobs, and reads sensitive outputs."},
	{"viewer", "Viewer", "Reads, sensitive values excepted."},
}

func newUserSheet() sheet {
	return sheet{path: "/users/new", nav: "/users", need: catalog.Administer,
		show: func(_ *visit, f form) (sheetContent, error) { return sheetContent{"Add a user", newUserForm(f)}, nil },
		act: func(v *visit, f form) (outcome, error) {
			u, err := v.Access.CreateUser(v.ctx, v.actor, f.get("name"), catalog.Role(f.get("role")), f.get("password"))
			return outcome{next: "/users", note: u.Name + " can log in now."}, atField(err, "user_exists", "name")
		},
	}
}

// ofUser makes a sheet about one user.
func ofUser(path string,
	body func(v *visit, u access.User, f form) (sheetContent, error), act func(v *visit, u access.User, f form) (outcome, error),
) sheet {
	return sheet{path: "/users/{user}/" + path, nav: "/users", need: catalog.Administer,
		show: func(v *visit, f form) (sheetContent, error) {
			u, err := v.userNamed(v.request.PathValue("user"))
			if err != nil {
				return sheetContent{}, err
			}
			return body(v, u, f)
		},
		act: func(v *visit, f form) (outcome, error) {
			u, err := v.userNamed(v.request.PathValue("user"))
			if err != nil {
				return outcome{}, err
			}
			return act(v, u, f)
		},
	}
}

func (v *visit) userNamed(name string) (access.User, error) {
	users, err := v.Access.Users(v.ctx, v.actor)
	if err != nil {
		return access.User{}, err
	}
	for _, u := range users {
		if u.Name == name {
			return u, nil
		}
	}
	return access.User{}, fault.New(fault.NotFound, "user_not_found", "there is no user %q", name)
}

func rolesSheet() sheet {
	return ofUser("role",
		func(_ *visit, u access.User, f form) (sheetContent, error) {
			return sheetContent{"Role of " + u.Name, roleForm(u, f)}, nil
		},
		func(v *visit, u access.User, f form) (outcome, error) {
			err := v.Access.SetRole(v.ctx, v.actor, u.ID, catalog.Role(f.get("role")))
			return outcome{next: "/users", note: u.Name + " is " + f.get("role") + " now."}, err
		})
}

func passwordSheet() sheet {
	return ofUser("password",
		func(_ *visit, u access.User, f form) (sheetContent, error) {
			return sheetContent{"Password of " + u.Name, passwordForm(u, f)}, nil
		},
		func(v *visit, u access.User, f form) (outcome, error) {
			err := v.Access.SetPassword(v.ctx, v.actor, u.ID, "", f.get("password"))
			return outcome{next: "/users", note: u.Name + " has another password now."}, err
		})
}

func userSessionsSheet() sheet {
	return sheet{path: "/users/{user}/sessions", nav: "/users", need: catalog.Administer,
		show: func(v *visit, f form) (sheetContent, error) {
			return v.sessionsContent(v.request.PathValue("user"), f)
		},
		act: func(v *visit, f form) (outcome, error) {
			return v.endSessions(v.request.PathValue("user"), f, "/users")
		},
	}
}

// sessionsContent is the form with the Web sessions of a user.
func (v *visit) sessionsContent(user string, f form) (sheetContent, error) {
	sessions, err := v.Access.WebSessions(v.ctx, v.actor, user)
	return sheetContent{"Sessions of " + user, sessionsForm(v, sessions, f)}, err
}

// endSessions ends the Web sessions that were chosen in that form.
func (v *visit) endSessions(user string, f form, next string) (outcome, error) {
	if f.get("all") != "" {
		err := v.Access.EndWebSessions(v.ctx, v.actor, user)
		return outcome{next: next, note: user + " is logged out everywhere."}, err
	}
	chosen := f.values["session"]
	if len(chosen) == 0 {
		return outcome{}, fault.New(fault.Invalid, "nothing_chosen", "no session is selected").WithHint("select a session, or all of them")
	}
	for _, id := range chosen {
		if err := v.Access.EndWebSession(v.ctx, v.actor, user, id); err != nil {
			return outcome{}, err
		}
	}
	return outcome{next: next, note: counted(len(chosen), "session") + " of " + user + " ended."}, nil
}

func deleteUserSheet() sheet {
	return ofUser("delete",
		func(v *visit, u access.User, f form) (sheetContent, error) {
			return sheetContent{"Delete " + u.Name + "?", deleteUserForm(v, u, f)}, nil
		},
		func(v *visit, u access.User, _ form) (outcome, error) {
			err := v.Access.DeleteUser(v.ctx, v.actor, u.ID)
			return outcome{next: "/users", note: u.Name + " is deleted."}, err
		})
}
