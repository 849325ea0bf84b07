package web

import (
	"net/url"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// cloudIdentitiesPage lists as whom launchers work in clouds.
func cloudIdentitiesPage() page {
	return page{path: "/cloud-identities", nav: "/cloud-identities", kinds: []string{"cloud_identity.", "runner.changed"}, load: func(v *visit) (content, error) {
		all, err := v.cloudIdentities()
		if err != nil {
			return content{}, err
		}
		sorted := sortList(v, all,
			column[usedIdentity]{"name", byText(func(i usedIdentity) string { return i.Name })},
			column[usedIdentity]{"cloud", byText(func(i usedIdentity) string { return string(i.Provider) })},
			column[usedIdentity]{"region", byText(func(i usedIdentity) string { return i.Region })},
			column[usedIdentity]{"changed", byTime(func(i usedIdentity) time.Time { return i.UpdatedAt })},
		)
		rows := []part{}
		for _, i := range all {
			rows = append(rows, part{id: "identity-" + i.ID, body: identityRow(v, i)})
		}
		list := part{id: "identities", body: identityRows(v, all), rows: rows}
		return content{title: "Cloud identities", body: identitiesBody(v, all, sorted), parts: []part{list}}, nil
	}}
}

// usedIdentity is a cloud identity with the Runners that name it.
type usedIdentity struct {
	catalog.CloudIdentity
	runners []string
}

func (v *visit) cloudIdentities() ([]usedIdentity, error) {
	identities, err := v.Control.CloudIdentities(v.ctx, v.actor)
	if err != nil {
		return nil, err
	}
	runners, err := v.Control.Runners(v.ctx, v.actor)
	by := map[string][]string{}
	for _, r := range runners {
		if r.Hosting != nil && r.Hosting.CloudIdentity != "" {
			by[r.Hosting.CloudIdentity] = append(by[r.Hosting.CloudIdentity], r.Name)
		}
	}
	all := make([]usedIdentity, len(identities))
	for n, i := range identities {
		all[n] = usedIdentity{i, by[i.Name]}
	}
	return all, err
}

// cloudIdentity gives the one that the address names.
func (v *visit) cloudIdentity() (usedIdentity, error) {
	all, err := v.cloudIdentities()
	if err != nil {
		return usedIdentity{}, err
	}
	for _, i := range all {
		if i.Name == v.request.PathValue("identity") {
			return i, nil
		}
	}
	return usedIdentity{}, fault.New(fault.NotFound, "cloud_identity_not_found", "there is no such cloud identity").WithHint("look at the list")
}

// waysText says how an identity comes to its rights.
func waysText(i catalog.CloudIdentitySpec) string {
	begin := "the host's own credentials"
	switch {
	case i.WebIdentityTokenFile != "":
		begin = "a token of the host"
	case i.AccessKeyID != "":
		begin = "the access key " + i.AccessKeyID
	}
	if i.RoleARN != "" {
		return "a role, by " + begin
	}
	return begin
}

// secretHelp says what becomes of the field of the secret.
func secretHelp(i catalog.CloudIdentitySpec) string {
	const ways = "Text that is sealed here and never shown, or a reference such as ${file:/run/aws-key}, which is resolved on the launcher's host."
	switch {
	case i.SecretAccessKey != "":
		return "Left empty, the reference " + i.SecretAccessKey + " stays. " + ways
	case i.AccessKeyID != "":
		return "Left empty, the one that is kept stays. " + ways
	}
	return ways
}

func identityPath(i usedIdentity, below string) string {
	return "/cloud-identities/" + url.PathEscape(i.Name) + "/" + below
}

func identitySpecOf(f form, name string) catalog.CloudIdentitySpec {
	return catalog.CloudIdentitySpec{Name: name, Description: f.get("description"), Provider: catalog.Providers[0], Region: f.get("region"),
		RoleARN: f.get("role_arn"), ExternalID: f.get("external_id"), SessionName: f.get("session_name"), WebIdentityTokenFile: f.get("web_identity_token_file"),
		AccessKeyID: f.get("access_key_id"), SecretAccessKey: f.get("secret_access_key"), Endpoint: f.get("endpoint")}
}

func cloudIdentitySheets() []sheet {
	return []sheet{
		{path: "/cloud-identities/new", nav: "/cloud-identities", need: catalog.Administer,
			show: func(_ *visit, f form) (sheetContent, error) {
				return sheetContent{"Add a cloud identity", newIdentityForm(f)}, nil
			},
			act: func(v *visit, f form) (outcome, error) {
				all, err := v.cloudIdentities()
				if err != nil {
					return outcome{}, err
				}
				spec := identitySpecOf(f, f.get("name"))
				for _, i := range all {
					if i.Name == spec.Name {
						message := "there is a cloud identity of this name"
						return outcome{}, fault.New(fault.Conflict, "cloud_identity_exists", "%s", message).WithDetails(fault.Problem{Field: "name", Message: message})
					}
				}
				_, err = v.Control.PutCloudIdentity(v.ctx, v.actor, spec)
				return outcome{next: "/cloud-identities", note: spec.Name + " is kept."}, err
			},
		},
		{path: "/cloud-identities/{identity}/edit", nav: "/cloud-identities", need: catalog.Administer,
			show: func(v *visit, f form) (sheetContent, error) {
				i, err := v.cloudIdentity()
				return sheetContent{"Change " + i.Name, editIdentityForm(i, f)}, err
			},
			act: func(v *visit, f form) (outcome, error) {
				i, err := v.cloudIdentity()
				if err == nil {
					_, err = v.Control.PutCloudIdentity(v.ctx, v.actor, identitySpecOf(f, i.Name))
				}
				return outcome{next: "/cloud-identities", note: i.Name + " is changed. Runner Jobs that begin from now on work as it says."}, err
			},
		},
		{path: "/cloud-identities/{identity}/delete", nav: "/cloud-identities", need: catalog.Administer,
			show: func(v *visit, f form) (sheetContent, error) {
				i, err := v.cloudIdentity()
				return sheetContent{"Delete " + i.Name + "?", deleteIdentityForm(i, f)}, err
			},
			act: func(v *visit, _ form) (outcome, error) {
				i, err := v.cloudIdentity()
				if err == nil {
					err = v.Control.DeleteCloudIdentity(v.ctx, v.actor, i.Name)
				}
				return outcome{next: "/cloud-identities", note: i.Name + " is deleted."}, err
			},
		},
	}
}
