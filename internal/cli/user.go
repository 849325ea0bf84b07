package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

func (a *app) userCommand() *cobra.Command {
	return parent("user", "Users: people who log in to the dashboard with a password",
		a.userCreate(), a.userList(), a.userPassword(), a.userRole(), a.userDelete(), a.userSessions(), a.userLogout())
}

const maxPasswordLine = 1024

// newPassword asks twice at a terminal, and else reads one line: what stands on a command line is seen by every user of the host.
func (a *app) newPassword(name string) (string, error) {
	if isTerminal(a.In) {
		first, err := a.askSecret("New password of " + name + ": ")
		if err != nil {
			return "", err
		}
		second, err := a.askSecret("The same again: ")
		if err == nil && first != second {
			err = fault.New(fault.Invalid, "password_differs", "the two are not the same")
		}
		return first, err
	}
	line, err := bufio.NewReader(io.LimitReader(a.In, maxPasswordLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the password: %w", err)
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", fault.New(fault.Invalid, "password_missing", "no password was given").
			WithHint("write it to the standard input as one line, or run the command in a terminal, where it asks")
	}
	return line, nil
}

// askSecret reads a line that is not shown.
func (a *app) askSecret(prompt string) (string, error) {
	fmt.Fprint(a.Err, prompt)
	file := a.In.(*os.File) // it is a terminal
	text, err := term.ReadPassword(int(file.Fd()))
	fmt.Fprintln(a.Err)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return string(text), nil
}

var userRoles = []string{string(catalog.RoleOwner), string(catalog.RoleOperator), string(catalog.RoleViewer)}

func (a *app) userCreate() *cobra.Command {
	role := ""
	cmd := a.withFormat(&cobra.Command{
		Use: "create NAME", Short: "Create a user; the password is asked for, or read as one line from the standard input",
		Args: exactly("NAME"), ValidArgsFunction: cobra.NoFileCompletions,
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		password, err := a.newPassword(args[0])
		if err != nil {
			return err
		}
		made, err := client.CreateUser(cmd.Context(), api.UserRequest{Name: args[0], Role: catalog.Role(role), Password: password})
		if err != nil {
			return err
		}
		return a.show(made, func() *table {
			t := &table{}
			t.add("user", made.Name)
			t.add("role", string(made.Role))
			t.add("id", made.ID)
			return t
		})
	}
	cmd.Flags().StringVar(&role, "role", string(catalog.RoleViewer), "owner: everything; operator: runs Jobs; viewer: reads")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(userRoles, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (a *app) userList() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "list", Short: "List users", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			users, err := client.Users(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(users, func() *table {
				t := &table{head: []string{"USER", "ROLE", "LAST LOG IN", "PASSWORD SET", "CREATED", "ID"}}
				for _, u := range users {
					t.add(u.Name, string(u.Role), since(u.LastUsedAt, time.Now()), since(u.PasswordAt, time.Now()), since(u.CreatedAt, time.Now()), u.ID)
				}
				return t
			})
		},
	})
}

func (a *app) userPassword() *cobra.Command {
	return &cobra.Command{
		Use: "set-password USER", Short: "Give a user another password, asked for or read from the standard input; wherever the user is logged in, that ends",
		Args: exactly("USER"), ValidArgsFunction: a.completeUsers,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			password, err := a.newPassword(args[0])
			if err != nil {
				return err
			}
			return client.SetUserPassword(cmd.Context(), args[0], api.PasswordRequest{Password: password})
		},
	}
}

func (a *app) userRole() *cobra.Command {
	return &cobra.Command{
		Use: "set-role USER ROLE", Short: "Give a user another role: owner, operator or viewer", Args: exactly("USER", "ROLE"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return userRoles, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeUsers(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			return client.SetUserRole(cmd.Context(), args[0], catalog.Role(args[1]))
		},
	}
}

func (a *app) userDelete() *cobra.Command {
	return a.deletes("user", &cobra.Command{
		Use: "delete USER", Short: "Delete a user; wherever the user is logged in, that ends", Args: exactly("USER"), ValidArgsFunction: a.completeUsers,
	}, func(ctx context.Context, client *api.Client, args []string) error {
		return client.DeleteUser(ctx, args[0])
	})
}

func (a *app) userSessions() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "sessions USER", Short: "List the browsers in which a user is logged in", Args: exactly("USER"), ValidArgsFunction: a.completeUsers,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			sessions, err := client.WebSessions(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(sessions, func() *table {
				t := &table{head: []string{"SESSION", "ADDRESS", "LOGGED IN", "LAST SEEN"}}
				for _, s := range sessions {
					t.add(s.ID, s.Address, since(s.CreatedAt, time.Now()), since(s.SeenAt, time.Now()))
				}
				return t
			})
		},
	})
}

func (a *app) userLogout() *cobra.Command {
	session := ""
	cmd := &cobra.Command{
		Use: "logout USER", Short: "Log a user out everywhere, or end one session", Args: exactly("USER"), ValidArgsFunction: a.completeUsers,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if session != "" {
				return client.EndWebSession(cmd.Context(), args[0], session)
			}
			return client.EndWebSessions(cmd.Context(), args[0])
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "`id` of the only session to end, as user sessions prints it")
	return cmd
}

func (a *app) completeUsers(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.names(cmd, func(ctx context.Context, client *api.Client) ([]string, error) {
		users, err := client.Users(ctx)
		names := make([]string, len(users))
		for i, u := range users {
			names[i] = u.Name + "\t" + string(u.Role)
		}
		return names, err
	})
}
