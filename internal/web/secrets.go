package web

import (
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control"
)

func secretsPage() page {
	return page{path: "/secrets", nav: "/secrets", kinds: []string{"secret.", "stack.", "namespace.", "module.", "runbook."}, load: func(v *visit) (content, error) {
		secrets, err := v.Control.Secrets(v.ctx, v.actor, "")
		if err != nil {
			return content{}, err
		}
		sorted := sortList(v, secrets,
			column[catalog.Secret]{"scope", byText(func(s catalog.Secret) string { return s.Scope })},
			column[catalog.Secret]{"name", byText(func(s catalog.Secret) string { return s.Name })},
			column[catalog.Secret]{"kind", byText(func(s catalog.Secret) string { return string(s.Kind) })},
			column[catalog.Secret]{"changed", byTime(func(s catalog.Secret) time.Time { return s.ChangedAt })},
			column[catalog.Secret]{"by", byText(func(s catalog.Secret) string { return s.ChangedBy })},
		)
		rows := []part{}
		for _, s := range secrets {
			rows = append(rows, part{id: "secret-" + s.ID, body: secretRow(v, s)})
		}
		list := part{id: "secrets", body: secretRows(v, secrets), rows: rows}
		return content{title: "Secrets", body: secretsBody(v, secrets, sorted), parts: []part{list}}, nil
	}}
}

func secretPage() page {
	return page{path: "/secrets/{secret}", nav: "/secrets", kinds: []string{"secret.", "module.", "namespace.", "runbook."}, load: func(v *visit) (content, error) {
		s, err := v.Control.Secret(v.ctx, v.actor, v.request.PathValue("secret"))
		if err != nil {
			return content{}, err
		}
		return content{title: s.Name, body: secretBody(v, s), parts: []part{{id: "secret", body: secretFacts(v, s)}}}, nil
	}}
}

// secretPathsPage shows what a Runner found.
func secretPathsPage() page {
	return page{path: "/secret-paths/{job}", nav: "/secrets", need: catalog.Declare, kinds: []string{"job."}, load: func(v *visit) (content, error) {
		found, err := v.Control.SecretPaths(v.ctx, v.actor, v.request.PathValue("job"))
		if err != nil {
			return content{}, err
		}
		return content{title: "Where Secrets are", body: secretPathsBody(v, found), parts: []part{{id: "paths", body: secretPathsList(v, found)}}}, nil
	}}
}

var secretKinds = []option{
	{"value", "A value", "Sealed here. It is written, and never shown again."},
	{"reference", "A reference", "A Runner gets it on its own host when a Step needs it; the Server never sees it."},
}

// typedSecret reads what a form says of a Secret. Lines that a browser sends end as they do in files.
func typedSecret(f form, name, scope string) control.SecretChange {
	change := control.SecretChange{SecretSpec: catalog.SecretSpec{
		Name: name, Scope: scope, Description: f.get("description"), Kind: catalog.SecretKind(f.get("kind")),
	}}
	if change.Kind == catalog.SecretReference {
		change.Reference = f.get("reference")
	} else if value := strings.ReplaceAll(f.values.Get("value"), "\r\n", "\n"); value != "" {
		change.Value = &value
	}
	return change
}

func newSecretSheet() sheet {
	return sheet{path: "/secrets/new", nav: "/secrets", need: catalog.Declare,
		show: func(v *visit, f form) (sheetContent, error) {
			stacks, err := v.Control.Stacks(v.ctx, v.actor)
			first := ""
			if len(stacks) > 0 {
				first = stacks[0].Name
			}
			return sheetContent{"Add a Secret", newSecretForm(f, first, v.request.URL.Query().Get("reference"))}, err
		},
		act: func(v *visit, f form) (outcome, error) {
			s, err := v.Control.SetSecret(v.ctx, v.actor, typedSecret(f, f.get("name"), f.get("scope")))
			return outcome{next: "/secrets", note: s.Name + " is kept."}, atField(err, "scope_not_found", "scope")
		},
	}
}

func changeSecretSheet() sheet {
	return sheet{path: "/secrets/{secret}/change", nav: "/secrets", need: catalog.Declare,
		show: func(v *visit, f form) (sheetContent, error) {
			s, err := v.Control.Secret(v.ctx, v.actor, v.request.PathValue("secret"))
			return sheetContent{"Change " + s.Name, changeSecretForm(f, s.Secret)}, err
		},
		act: func(v *visit, f form) (outcome, error) {
			s, err := v.Control.Secret(v.ctx, v.actor, v.request.PathValue("secret"))
			if err != nil {
				return outcome{}, err
			}
			_, err = v.Control.SetSecret(v.ctx, v.actor, typedSecret(f, s.Name, s.Scope))
			return outcome{next: "/secrets", note: s.Name + " is changed. Jobs that begin from now on get it."}, err
		},
	}
}

func deleteSecretSheet() sheet {
	return sheet{path: "/secrets/{secret}/delete", nav: "/secrets", need: catalog.Declare,
		show: func(v *visit, f form) (sheetContent, error) {
			s, err := v.Control.Secret(v.ctx, v.actor, v.request.PathValue("secret"))
			return sheetContent{"Delete " + s.Name + "?", deleteSecretForm(f, s)}, err
		},
		act: func(v *visit, f form) (outcome, error) {
			err := v.Control.DeleteSecret(v.ctx, v.actor, v.request.PathValue("secret"))
			return outcome{next: "/secrets", note: "The Secret is deleted."}, err
		},
	}
}

// browseSecretsSheet has a Runner tell where Secrets are on its host.
func browseSecretsSheet() sheet {
	return sheet{path: "/secrets/browse", nav: "/secrets", need: catalog.Declare,
		show: func(_ *visit, f form) (sheetContent, error) {
			return sheetContent{"Browse runner secrets", browseSecretsForm(f)}, nil
		},
		act: func(v *visit, f form) (outcome, error) {
			job, err := v.Control.ListSecretPaths(v.ctx, v.actor, control.SecretPlace{Stack: f.get("stack"), Runner: f.get("runner"), Where: f.get("where")})
			if err != nil {
				return outcome{}, atField(atField(err, "stack_not_found", "stack"), "runner_not_found", "runner")
			}
			return outcome{next: "/secret-paths/" + job.ID, note: "The Runner is asked."}, nil
		},
	}
}

func secretSheets() []sheet {
	return []sheet{newSecretSheet(), changeSecretSheet(), deleteSecretSheet(), browseSecretsSheet()}
}
