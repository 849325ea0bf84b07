package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/access"
	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

func (a *app) principalCommand() *cobra.Command {
	credential := parent("credential", "Credentials of a Service principal: bearer tokens and client secrets",
		a.credentialCreate(), a.credentialList(), a.credentialDelete())
	return parent("principal", "Service principals: who people, programs and Runners log in as",
		a.principalCreate(), a.principalList(), a.principalDelete(), credential)
}

// credentialFlags gives a command the flags that say what Credential to make, and what reads them.
func credentialFlags(cmd *cobra.Command) func() api.CredentialRequest {
	secret := cmd.Flags().Bool("secret", false, "a client secret for /connect/token, instead of a bearer token")
	expires := cmd.Flags().Duration("expires", 0, "how long it holds, for example 720h; without it for ever")
	return func() api.CredentialRequest {
		r := api.CredentialRequest{ExpiresIn: catalog.Duration(*expires)}
		if *secret {
			r.Kind = access.ClientSecret
		}
		return r
	}
}

func (a *app) principalCreate() *cobra.Command {
	role := ""
	cmd := a.withFormat(&cobra.Command{
		Use: "create NAME", Short: "Create a Service principal and show its token, this once", Args: exactly("NAME"), ValidArgsFunction: cobra.NoFileCompletions,
	})
	request := credentialFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.newCredential(func(client *api.Client) (api.CreatedCredential, error) {
			return client.CreatePrincipal(cmd.Context(), api.PrincipalRequest{Name: args[0], Role: catalog.Role(role), Credential: request()})
		})
	}
	cmd.Flags().StringVar(&role, "role", string(catalog.RoleViewer), "owner: everything; operator: runs Jobs; viewer: reads; runner: what several Runners log in as")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"owner", "operator", "viewer", "runner"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// newCredential has a Credential made and shows it.
func (a *app) newCredential(have func(*api.Client) (api.CreatedCredential, error)) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	made, err := have(client)
	if err != nil {
		return err
	}
	return a.show(made, func() *table {
		t := &table{}
		t.add("principal", made.Principal.Name)
		t.add("role", string(made.Principal.Role))
		t.add("credential", made.ID)
		if !made.ExpiresAt.IsZero() {
			t.add("expires", made.ExpiresAt.UTC().Format(time.RFC3339))
		}
		if made.Token != "" {
			t.add("token", made.Token+"  (shown this once)")
			return t
		}
		t.add("organization_id", made.OrganizationID)
		t.add("client_id", made.Principal.ClientID)
		t.add("client_secret", made.ClientSecret+"  (shown this once)")
		return t
	})
}

func (a *app) principalList() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "list", Short: "List Service principals", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			principals, err := client.Principals(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(principals, func() *table {
				t := &table{head: []string{"PRINCIPAL", "ROLE", "CLIENT ID", "CREATED", "ID"}}
				for _, p := range principals {
					t.add(p.Name, string(p.Role), p.ClientID, since(p.CreatedAt, time.Now()), p.ID)
				}
				return t
			})
		},
	})
}

func (a *app) principalDelete() *cobra.Command {
	return a.deletes("service principal", &cobra.Command{
		Use: "delete PRINCIPAL", Short: "Delete a Service principal with its credentials", Args: exactly("PRINCIPAL"), ValidArgsFunction: a.completePrincipals,
	}, func(ctx context.Context, client *api.Client, args []string) error {
		return client.DeletePrincipal(ctx, args[0])
	})
}

func (a *app) credentialCreate() *cobra.Command {
	name := ""
	cmd := a.withFormat(&cobra.Command{
		Use: "create PRINCIPAL", Short: "Give a Service principal one more credential and show it, this once; those that it has go on",
		Args: exactly("PRINCIPAL"), ValidArgsFunction: a.completePrincipals,
	})
	request := credentialFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.newCredential(func(client *api.Client) (api.CreatedCredential, error) {
			r := request()
			r.Name = name
			return client.CreateCredential(cmd.Context(), args[0], r)
		})
	}
	cmd.Flags().StringVar(&name, "name", "", "what it is for, to tell it from others")
	return cmd
}

func (a *app) credentialList() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "list PRINCIPAL", Short: "List the credentials of a Service principal", Args: exactly("PRINCIPAL"), Aliases: []string{"ls"}, ValidArgsFunction: a.completePrincipals,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			credentials, err := client.Credentials(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(credentials, func() *table {
				t := &table{head: []string{"CREDENTIAL", "KIND", "ID", "CREATED", "LAST USED", "EXPIRES"}}
				for _, c := range credentials {
					expires := "never"
					if !c.ExpiresAt.IsZero() {
						expires = c.ExpiresAt.UTC().Format(time.RFC3339)
					}
					t.add(c.Name, string(c.Kind), c.ID, since(c.CreatedAt, time.Now()), since(c.LastUsedAt, time.Now()), expires)
				}
				return t
			})
		},
	})
}

func (a *app) credentialDelete() *cobra.Command {
	return a.deletes("credential", &cobra.Command{
		Use: "delete PRINCIPAL ID", Short: "End a credential, and within seconds what was had with it", Args: exactly("PRINCIPAL", "ID"), ValidArgsFunction: a.completePrincipals,
	}, func(ctx context.Context, client *api.Client, args []string) error {
		return client.DeleteCredential(ctx, args[0], args[1])
	})
}

func (a *app) completePrincipals(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.names(cmd, func(ctx context.Context, client *api.Client) ([]string, error) {
		principals, err := client.Principals(ctx)
		names := make([]string, len(principals))
		for i, p := range principals {
			names[i] = p.ClientID + "\t" + p.Name
		}
		return names, err
	})
}

// findPrincipal puts the id of the Service principal that a flag names, by name, client id or id, into a RunnerSpec.
func (a *app) findPrincipal(ctx context.Context, name string, spec *catalog.RunnerSpec) error {
	if name == "" {
		return nil
	}
	client, err := a.client()
	if err != nil {
		return err
	}
	all, err := client.Principals(ctx)
	named := 0
	for _, p := range all {
		switch {
		case p.ID == name || p.ClientID == name:
			spec.ServicePrincipalID = p.ID
			return err
		case p.Name == name:
			spec.ServicePrincipalID = p.ID
			named++
		}
	}
	if named > 1 {
		return fault.New(fault.Conflict, "principal_ambiguous", "%d Service principals are named %q", named, name).WithHint("name one by its id: legwork principal list")
	}
	if err == nil && spec.ServicePrincipalID == "" {
		err = fault.New(fault.NotFound, "principal_not_found", "there is no Service principal %q", name).WithHint("see legwork principal list")
	}
	return err
}
