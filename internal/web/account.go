package web

import (
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// accountSheet lets whoever logged in by name and password have another password.
func accountSheet() sheet {
	return sheet{path: "/account", nav: "/", need: catalog.Read,
		show: func(v *visit, f form) (sheetContent, error) {
			return sheetContent{"Your password", accountForm(v.actor.Name, f)}, nil
		},
		act: func(v *visit, f form) (outcome, error) {
			err := v.Access.SetPassword(v.ctx, v.actor, v.actor.ID, f.get("current"), f.get("password"))
			return outcome{next: "/login", note: "Log in with the new password."}, err
		},
	}
}

// accountSessionsSheet lets a user see where it is logged in, and log out there.
func accountSessionsSheet() sheet {
	return sheet{path: "/account/sessions", nav: "/", need: catalog.Read,
		show: func(v *visit, f form) (sheetContent, error) {
			c, err := v.sessionsContent(v.actor.Name, f)
			if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden) { // a service principal has no sessions of a user
				return sheetContent{"Sessions of " + v.actor.Name, sessionsForm(v, nil, f)}, nil
			}
			return c, err
		},
		act: func(v *visit, f form) (outcome, error) { return v.endSessions(v.actor.Name, f, "/") },
	}
}
