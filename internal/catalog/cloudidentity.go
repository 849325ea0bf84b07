package catalog

import (
	"fmt"
	"net/url"
	"path"
	"slices"

	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

// Providers lists the clouds that a CloudIdentity may be of.
var Providers = []string{"aws"}

// MaxCloudIdentities is how many an Organization may have.
const MaxCloudIdentities = 1_000

// Path gives the name.
func (i CloudIdentitySpec) Path() string { return i.Name }

// Validate names every problem of the CloudIdentity in one Invalid Fault, or gives nil. Whether a secret is kept is for Plan to say.
func (i CloudIdentitySpec) Validate() error {
	return specFault("cloud_identity_invalid", i.Path(), i.problems())
}

// HasReference tells whether the secret is got on the launcher's host, from where the Spec says.
func (i CloudIdentitySpec) HasReference() bool { return referenceForm.MatchString(i.SecretAccessKey) }

// WithoutSecrets gives the Spec without a secret that is no reference.
func (i CloudIdentitySpec) WithoutSecrets() CloudIdentitySpec {
	if !i.HasReference() {
		i.SecretAccessKey = ""
	}
	return i
}

// Keep gives the Spec with what stays of the one before: a secret that is not given is that of the same key. That of a
// Spec before which names a key and no secret is sealed. ok tells whether there is a secret, where one is wanted.
func (i CloudIdentitySpec) Keep(before CloudIdentitySpec) (kept CloudIdentitySpec, ok bool) {
	if i.AccessKeyID == "" || i.SecretAccessKey != "" {
		return i, true
	}
	i.SecretAccessKey = before.SecretAccessKey
	return i, i.AccessKeyID == before.AccessKeyID
}

var (
	anyRegionForm   = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,31}$`) // also of other clouds with the same protocols
	externalIDForm  = lazyregexp.New(`^[\w+=,.@:/-]{2,1000}$`)
	sessionNameForm = lazyregexp.New(`^[\w+=,.@-]{2,64}$`)
	accessKeyForm   = lazyregexp.New(`^\w{16,128}$`)
)

// problems are the rules of AWS for each field, as the API reference of STS has them.
func (i CloudIdentitySpec) problems() []fault.Problem {
	var c checker
	c.name("name", i.Name)
	c.description(i.Description)
	choice(&c, "provider", i.Provider, Providers, true)
	c.shaped("region", i.Region, anyRegionForm, "a region, such as eu-central-1")
	c.shaped("role_arn", i.RoleARN, roleForm, "the ARN of a role, such as arn:aws:iam::123456789012:role/legwork")
	c.shaped("external_id", i.ExternalID, externalIDForm, "2 to 1000 letters, digits and _+=,.@:/-")
	c.shaped("session_name", i.SessionName, sessionNameForm, "2 to 64 letters, digits and _+=,.@-")
	c.shaped("access_key_id", i.AccessKeyID, accessKeyForm, "an access key id, such as AKIAIOSFODNN7EXAMPLE")
	c.endpoint("endpoint", i.Endpoint)
	c.identityWays(i)
	c.secretKey(i.SecretAccessKey)
	return c.problems
}

// identityWays checks what belongs together.
func (c *checker) identityWays(i CloudIdentitySpec) {
	for _, of := range []struct{ field, value string }{
		{"external_id", i.ExternalID}, {"session_name", i.SessionName}, {"web_identity_token_file", i.WebIdentityTokenFile},
	} {
		if of.value != "" && i.RoleARN == "" {
			c.add(of.field, "belongs to a role: role_arn is missing")
		}
	}
	switch file := i.WebIdentityTokenFile; {
	case file == "":
	case !oneLine(file) || !path.IsAbs(file) || len(file) > 4096:
		c.add("web_identity_token_file", "wants an absolute path on the launcher's host")
	case i.AccessKeyID != "":
		c.add("web_identity_token_file", "cannot stand beside access keys: the token is what the role is got with")
	case i.ExternalID != "":
		c.add("external_id", "means nothing to a role that is got with a token")
	}
	if i.SecretAccessKey != "" && i.AccessKeyID == "" {
		c.add("access_key_id", "is missing, while there is a secret")
	}
}

// secretKey checks a secret without showing it.
func (c *checker) secretKey(secret string) {
	switch {
	case secret == "" || referenceForm.MatchString(secret) && len(secret) <= MaxReference && oneLine(secret):
	case len(secret) > 1 && secret[:2] == "${":
		c.add("secret_access_key", "is no reference: it wants ${SCHEME:...}, where SCHEME is one of %s", oneOf(ReferenceSchemes))
	case len(secret) > 512 || !oneLine(secret):
		c.add("secret_access_key", "wants one line of at most 512 letters")
	}
}

func (c *checker) shaped(field, value string, form *lazyregexp.Regexp, wanted string) {
	if value != "" && !form.MatchString(value) {
		c.add(field, "%s is not %s", brief(value), wanted)
	}
}

func (c *checker) endpoint(field, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(text) > 2_000 {
		c.add(field, "wants a URL such as https://aws.example.com")
	}
}

// withoutSecretKey refuses a secret in a document, other than a reference, and takes it out, so that nothing else is said of it.
func (d *decoder) withoutSecretKey(entries []entry) []entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e entry) bool {
		if e.key != "secret_access_key" || isNull(e.value) {
			return false
		}
		if text, ok := d.text(e.value, e.key); !ok || text == "" || len(text) > 1 && text[:2] == "${" {
			return !ok
		}
		d.add(e.line, e.key, "%s", secretInManifest)
		return true
	})
}

const secretInManifest = "does not belong into a manifest, which others read: give a reference such as ${file:/run/aws-key}, or take it out and run: " +
	"legwork cloud-identity set; if it was in a repository, replace it where it comes from"

// keepKeys leaves CloudIdentities that give no secret the one of the same key, and names those of which none is kept, and those with a secret.
func (s Snapshot) keepKeys(declared []Declared[CloudIdentitySpec]) (problems []fault.Problem) {
	stored := byPath(s.CloudIdentities)
	for n := range declared {
		d := &declared[n]
		kept, ok := d.Spec.Keep(stored[d.Spec.Path()])
		switch {
		case d.broken:
		case !ok:
			problems = append(problems, located(*d, fault.Problem{Field: "secret_access_key",
				Message: fmt.Sprintf("is missing, and none is kept for this access key: give a reference, or run: legwork cloud-identity set %s", d.Spec.Name)}))
		case d.Spec.SecretAccessKey != "" && d.Spec.WithoutSecrets().SecretAccessKey == "" && len(d.Spec.problems()) == 0:
			problems = append(problems, located(*d, fault.Problem{Field: "secret_access_key", Message: secretInManifest}))
		default:
			d.Spec = kept
		}
	}
	return problems
}

// identities checks that the CloudIdentities which Runners name are there.
func (t *tree) identities() {
	for _, d := range t.manifest.Runners {
		if h := d.Spec.Hosting; h != nil {
			exists(t, d.At("hosting.cloud_identity"), "hosting.cloud_identity", KindCloudIdentity, h.CloudIdentity, t.cloudIdentities)
		}
	}
}
