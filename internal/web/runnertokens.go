package web

import (
	"cmp"
	"strconv"
	"time"

	"legwork/internal/access"
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// runnerTokensPage lists the registration tokens, with which Runners register themselves.
func runnerTokensPage() page {
	return page{path: "/runners/tokens", nav: "/runners", need: catalog.Administer, kinds: []string{"registration_token.", "runner.changed"}, load: func(v *visit) (content, error) {
		tokens, err := v.Access.RegistrationTokens(v.ctx, v.actor)
		if err != nil {
			return content{}, err
		}
		sorted := sortList(v, tokens, tokenColumns()...)
		all := part{id: "tokens", body: tokenRows(v, tokens), rows: []part{}}
		for _, t := range first(tokens, mostTokens) {
			all.rows = append(all.rows, part{id: "token-" + t.ID, body: tokenRow(v, t)})
		}
		return content{title: "Registration tokens", crumbs: []crumb{{"Runners", "/runners"}},
			body: tokensBody(v, tokens, sorted), parts: []part{all}}, nil
	}}
}

// tokenColumns are the columns that registration tokens can be sorted by.
func tokenColumns() []column[access.RegistrationToken] {
	type token = access.RegistrationToken
	return []column[token]{
		{"created", byTime(func(t token) time.Time { return t.CreatedAt })},
		{"name", byText(func(t token) string { return t.Name })},
		{"uses", func(a, b token) int { return cmp.Compare(a.UsesLeft, b.UsesLeft) }},
		{"expires", byTime(func(t token) time.Time { return t.ExpiresAt })},
		{"used", byTime(func(t token) time.Time { return t.LastUsedAt })},
	}
}

const mostTokens = 200 // shown

// newTokenSheet makes a registration token and shows it, this once.
func newTokenSheet() sheet {
	return sheet{path: "/runners/tokens/new", nav: "/runners/tokens", need: catalog.Administer,
		show: func(_ *visit, f form) (sheetContent, error) {
			return sheetContent{"Create a registration token", newTokenForm(f)}, nil
		},
		act: func(v *visit, f form) (outcome, error) {
			request, err := tokenRequestOf(f)
			if err != nil {
				return outcome{}, err
			}
			made, token, err := v.Access.CreateRegistrationToken(v.ctx, v.actor, request)
			return outcome{show: &sheetContent{"The registration token " + made.Name, newTokenBody(v, made, token)}}, err
		},
	}
}

func tokenRequestOf(f form) (r access.RegistrationRequest, err error) {
	r = access.RegistrationRequest{Name: f.get("name"), GiveLabels: f.get("give_labels") != ""}
	var problems []fault.Problem
	if r.Expires, err = expiryOf(f); err != nil {
		problems = fault.Of(err).Details
	}
	if r.Labels, err = labelsOf(f.get("labels")); err != nil {
		problems = append(problems, fault.Problem{Field: "labels", Message: err.Error()})
	}
	if text := f.get("uses"); f.get("unlimited") != "" {
		r.Uses = access.UnlimitedUses
	} else if r.Uses, err = strconv.ParseInt(text, 10, 64); text != "" && (err != nil || r.Uses < 1) {
		problems = append(problems, fault.Problem{Field: "uses", Message: "wants a number from 1"})
	}
	if len(problems) > 0 {
		return r, fault.New(fault.Invalid, "registration_token_invalid", "%s", problems[0]).WithDetails(problems...)
	}
	return r, nil
}

// revokeTokenSheet ends a registration token.
func revokeTokenSheet() sheet {
	return sheet{path: "/runners/tokens/{token}/revoke", nav: "/runners/tokens", need: catalog.Administer,
		show: func(v *visit, f form) (sheetContent, error) {
			t, err := v.tokenOf()
			return sheetContent{"Revoke the registration token " + t.Name + "?", revokeTokenForm(t, f)}, err
		},
		act: func(v *visit, _ form) (outcome, error) {
			t, err := v.tokenOf()
			if err == nil {
				err = v.Access.RevokeRegistrationToken(v.ctx, v.actor, t.ID)
			}
			return outcome{next: "/runners/tokens", note: "The registration token " + t.Name + " is revoked."}, err
		},
	}
}

func (v *visit) tokenOf() (access.RegistrationToken, error) {
	all, err := v.Access.RegistrationTokens(v.ctx, v.actor)
	if err != nil {
		return access.RegistrationToken{}, err
	}
	for _, t := range all {
		if t.ID == v.request.PathValue("token") {
			return t, nil
		}
	}
	return access.RegistrationToken{}, fault.New(fault.NotFound, "gone", "there is no such registration token any more").WithHint("look at the list")
}

func usesText(t access.RegistrationToken) string {
	if t.UsesLeft == access.UnlimitedUses {
		return "any number"
	}
	return number(t.UsesLeft)
}
