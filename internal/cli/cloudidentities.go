package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

func (a *app) cloudIdentityCommand() *cobra.Command {
	return parent("cloud-identity", "Cloud identities: as whom launchers work in a cloud", a.identitySet(), a.identityList(), a.identityShow(), a.identityDelete())
}

func (a *app) completeIdentities() cobra.CompletionFunc {
	return completeNames(a, func(ctx context.Context, c *api.Client) ([]catalog.CloudIdentity, error) {
		return c.CloudIdentities(ctx)
	},
		func(i catalog.CloudIdentity) string { return i.Name })
}

func (a *app) identitySet() *cobra.Command {
	var given catalog.CloudIdentitySpec
	keyFile, reference, stdin := "", "", false
	cmd := a.withFormat(&cobra.Command{
		Use: "set NAME", Short: "Create a Cloud identity, or change what flags say of one", Args: nameAlone, ValidArgsFunction: a.completeIdentities(),
		Long: "Create a Cloud identity, or change what is given by a flag alone. Without a role and keys a launcher works as its host, which is best:\n\n" +
			"  legwork cloud-identity set aws-prod --region eu-central-1 --role-arn arn:aws:iam::123456789012:role/legwork --external-id x7\n\n" +
			"A secret access key is read from standard input or from a file, never from an argument, which others on this host could see:\n\n" +
			"  legwork cloud-identity set aws-prod --access-key-id AKIA... --stdin-secret-access-key < key.txt\n\n" +
			"The Server keeps it sealed and never shows it. Better: a reference, which is followed at the launcher's host: --secret-reference '${file:/run/aws-key}'.",
	})
	flags := cmd.Flags()
	flags.StringVar(&given.Provider, "provider", "aws", "the cloud: aws")
	flags.StringVar(&given.Description, "description", "", "what it is for")
	flags.StringVar(&given.Region, "region", "", "of Runners that name this identity and no region")
	flags.StringVar(&given.RoleARN, "role-arn", "", "`ARN` of the role to assume")
	flags.StringVar(&given.ExternalID, "external-id", "", "that the role wants")
	flags.StringVar(&given.SessionName, "session-name", "", "of the role's sessions; default legwork")
	flags.StringVar(&given.WebIdentityTokenFile, "web-identity-token-file", "", "`path` at the launcher's host of a token that is exchanged for the role")
	flags.StringVar(&given.AccessKeyID, "access-key-id", "", "of the key to begin with")
	flags.StringVar(&given.Endpoint, "endpoint", "", "`URL` of all services, of a cloud that speaks AWS's protocols")
	flags.StringVar(&keyFile, "secret-access-key-file", "", "`file` with the secret access key")
	flags.StringVar(&reference, "secret-reference", "", "where the launcher's host gets it: ${file:...}, ${env:...}, ${vault:...} and the like")
	flags.BoolVar(&stdin, "stdin-secret-access-key", false, "read the secret access key from standard input")
	cmd.MarkFlagsMutuallyExclusive("secret-access-key-file", "secret-reference", "stdin-secret-access-key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		secret, err := a.identitySecret(keyFile, reference, stdin)
		if err != nil {
			return err
		}
		client, err := a.client()
		if err != nil {
			return err
		}
		found, err := client.CloudIdentity(cmd.Context(), args[0])
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		spec := found.CloudIdentitySpec
		spec.Name, spec.SecretAccessKey = args[0], secret
		if spec.Provider == "" {
			spec.Provider = given.Provider
		}
		overIdentity(cmd, given, &spec)
		if secret == "" && spec.AccessKeyID == found.AccessKeyID {
			spec.SecretAccessKey = found.SecretAccessKey // a reference; what is sealed is kept by the Server
		}
		made, err := client.PutCloudIdentity(cmd.Context(), spec)
		if err != nil {
			return err
		}
		return a.show(made, func() *table { return identityDetails(made) })
	}
	return cmd
}

func overIdentity(cmd *cobra.Command, given catalog.CloudIdentitySpec, spec *catalog.CloudIdentitySpec) {
	for flag, v := range map[string]struct{ given, field *string }{
		"provider": {&given.Provider, &spec.Provider}, "description": {&given.Description, &spec.Description}, "region": {&given.Region, &spec.Region},
		"role-arn": {&given.RoleARN, &spec.RoleARN}, "external-id": {&given.ExternalID, &spec.ExternalID}, "session-name": {&given.SessionName, &spec.SessionName},
		"web-identity-token-file": {&given.WebIdentityTokenFile, &spec.WebIdentityTokenFile}, "access-key-id": {&given.AccessKeyID, &spec.AccessKeyID},
		"endpoint": {&given.Endpoint, &spec.Endpoint},
	} {
		take(cmd, flag, *v.given, v.field)
	}
}

// identitySecret gives the secret that was given, or "". One that is read is not in any argument, nor in an error.
func (a *app) identitySecret(file, reference string, stdin bool) (string, error) {
	var data []byte
	var err error
	switch {
	case stdin:
		value, err := a.secretValue(false)
		if err != nil {
			return "", err
		}
		return *value, nil
	case file == "":
		return reference, nil
	}
	in, err := os.Open(file)
	if err != nil {
		return "", fault.New(fault.Invalid, "file", "the file %s cannot be read", file).WithCause(err)
	}
	defer in.Close()
	if data, err = io.ReadAll(io.LimitReader(in, catalog.MaxSecretBytes+1)); err != nil {
		return "", fmt.Errorf("read the file %s: %w", file, err)
	}
	value := strings.TrimSpace(string(data))
	return value, catalog.CheckSecretValue(value)
}

func (a *app) identityList() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "list", Short: "List Cloud identities", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			all, err := client.CloudIdentities(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(all, func() *table {
				t := &table{head: []string{"NAME", "PROVIDER", "REGION", "AS", "DESCRIPTION"}}
				for _, i := range all {
					t.add(i.Name, i.Provider, orDash(i.Region), identityAs(i.CloudIdentitySpec), orDash(i.Description))
				}
				return t
			})
		},
	})
}

// identityAs says in a few words as whom a launcher works.
func identityAs(i catalog.CloudIdentitySpec) string {
	switch {
	case i.RoleARN != "":
		return i.RoleARN
	case i.AccessKeyID != "":
		return "key " + i.AccessKeyID
	}
	return "the launcher's host"
}

func (a *app) identityShow() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "show NAME", Short: "Show one Cloud identity, without its secret", Args: exactly("NAME"), ValidArgsFunction: a.completeIdentities(),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			i, err := client.CloudIdentity(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(i, func() *table { return identityDetails(i) })
		},
	})
}

func identityDetails(i catalog.CloudIdentity) *table {
	t := &table{}
	for _, row := range [][2]string{
		{"name", i.Name}, {"id", i.ID}, {"provider", i.Provider}, {"description", i.Description}, {"region", i.Region}, {"role", i.RoleARN}, {"external id", i.ExternalID},
		{"session name", i.SessionName}, {"web identity token", i.WebIdentityTokenFile}, {"access key", i.AccessKeyID}, {"endpoint", i.Endpoint},
	} {
		if row[1] != "" {
			t.add(row[0], row[1])
		}
	}
	switch {
	case i.SecretAccessKey != "":
		t.add("secret", i.SecretAccessKey)
	case i.AccessKeyID != "":
		t.add("secret", "sealed")
	}
	return t
}

func (a *app) identityDelete() *cobra.Command {
	return a.deletes("cloud identity", &cobra.Command{
		Use: "delete NAME", Short: "Delete a Cloud identity that no Runner names", Args: exactly("NAME"), ValidArgsFunction: a.completeIdentities(),
	}, func(ctx context.Context, client *api.Client, args []string) error {
		return client.DeleteCloudIdentity(ctx, args[0])
	})
}
