package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runner"
)

func (a *app) runnerSetup() *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use: "setup --config FILE", Short: "Ask what a Runner needs, and write its settings", Args: exactly(),
		Long: "Ask what a Runner needs: in a form on a terminal, else line by line from standard input, where an empty line or the end\n" +
			"takes the default. The settings are written as JSON with mode 0600. Then it offers to register and to start the Runner.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return fault.New(fault.Invalid, "usage", "--config is missing").WithHint("name the file to write: legwork runner setup --config runner.json")
			}
			return a.setUp(cmd.Context(), file)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "settings `file` to write, JSON")
	return cmd
}

// answers are what setup asks for.
type answers struct {
	server, name, instance, labels, capacity, folder, tokenFile string

	created                                          bool // an owner created the Runner: these four are known
	id, organizationID, clientID, clientSecret       string
	overwrite, anyway, register, start, registerable bool
}

func (a *app) setUp(ctx context.Context, file string) error {
	k := a.asker()
	file, err := filepath.Abs(file)
	if err != nil {
		return fault.New(fault.Invalid, "file", "the present folder is not known").WithCause(err)
	}
	_, statErr := os.Lstat(file)
	w := newAnswers(a.serverURL(), file)
	if statErr == nil {
		w.take(file)
		if err := k.ask(ctx, question{title: fmt.Sprintf("The file %s is there already. Overwrite it?", file), yes: &w.overwrite}); err != nil {
			return err
		}
		if !w.overwrite {
			return fault.New(fault.Conflict, "file_exists", "the file %s is there already", file).WithHint("name another one with --config")
		}
	}
	if err := k.ask(ctx, w.questions()...); err != nil {
		return err
	}
	if err := a.tryServer(ctx, k, w); err != nil {
		return err
	}
	if err := writeSettings(file, w.settings(), w.overwrite); err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "The settings are in %s.\n", file)
	return a.offer(ctx, k, w, file)
}

func newAnswers(server, file string) *answers {
	host, _ := os.Hostname()
	home, _ := os.UserHomeDir() // without one, the default
	w := &answers{server: server, instance: host, name: strings.ToLower(host), capacity: "10", folder: runner.FolderIn(home),
		tokenFile: filepath.Join(filepath.Dir(file), "runner-token.json")}
	if catalog.NameProblem(w.name) != "" {
		w.name = "runner"
	}
	return w
}

// take begins with what a file says that setup wrote before, for what it can be read of. A secret is asked for again.
func (w *answers) take(file string) {
	var was struct {
		Server struct{ URL string }
		Runner struct {
			ID, OrganizationID, Name, Instance string
			Capacity                           int
			Labels                             map[string]string
			TokenFile                          string `json:"token_file"`
			Credentials                        struct{ ClientID string }
		}
		WorkingDirectory struct{ WorkingDirectory string }
	}
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &was) != nil {
		return
	}
	r := was.Runner
	for target, value := range map[*string]string{&w.server: was.Server.URL, &w.name: r.Name, &w.instance: r.Instance, &w.tokenFile: r.TokenFile,
		&w.folder: was.WorkingDirectory.WorkingDirectory, &w.id: r.ID, &w.organizationID: r.OrganizationID, &w.clientID: r.Credentials.ClientID} {
		*target = cmp.Or(value, *target)
	}
	if r.Capacity > 0 {
		w.capacity = strconv.Itoa(r.Capacity)
	}
	var labels []string
	for _, key := range sortedKeys(r.Labels) {
		labels = append(labels, key+"="+r.Labels[key])
	}
	w.labels, w.created = strings.Join(labels, ","), r.ID != ""
}

func (w *answers) questions() []question {
	created, registers := func() bool { return w.created }, func() bool { return !w.created }
	secret := question{title: "Client secret", text: &w.clientSecret, secret: true, check: needed, when: created}
	return []question{
		{title: "URL of the Server", hint: "for example https://legwork.example.com", text: &w.server, check: isURL},
		{title: "Do you already have a runner id and client secret?", hint: "If not, it registers with a registration token.", yes: &w.created},
		{title: "Runner id", hint: "as legwork runner create printed it", text: &w.id, check: needed, when: created},
		{title: "Organization id", text: &w.organizationID, check: needed, when: created},
		{title: "Client id", text: &w.clientID, check: needed, when: created},
		secret,
		{title: "Name of the Runner", hint: "what Modules name", text: &w.name, check: isName, when: registers},
		{title: "Labels", hint: "as key=value, separated by commas; those that the registration token allows", text: &w.labels, check: areLabels},
		{title: "Name of this Instance", hint: "of this process among those of its Runner", text: &w.instance, check: needed},
		{title: "Jobs at once", text: &w.capacity, check: isCapacity},
		{title: "Working directory", hint: "for sources, state, and what is needed to resume", text: &w.folder, check: needed},
		{title: "File for the credential of the runner", hint: "only this user can read it", text: &w.tokenFile, check: needed, when: registers},
	}
}

func needed(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("it is needed")
	}
	return nil
}

func isURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return errors.New("it must be a URL such as https://legwork.example.com")
	}
	return nil
}

func isName(text string) error {
	if problem := catalog.NameProblem(text); problem != "" {
		return errors.New(problem)
	}
	return nil
}

func isCapacity(text string) error {
	if n, err := strconv.Atoi(text); err != nil || n < 1 || n > 1000 {
		return errors.New("it must be a number from 1 to 1000")
	}
	return nil
}

func areLabels(text string) error {
	_, err := labelsOf(text)
	return err
}

func labelsOf(text string) (map[string]string, error) {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not of the form key=value", pair)
		}
		labels[key] = value
	}
	return labels, nil
}

// tryServer looks whether the Server answers. One that does not may be meant all the same.
func (a *app) tryServer(ctx context.Context, k *asker, w *answers) error {
	client, err := api.NewClient(api.ClientOptions{Server: w.server, CAFile: a.caFileName(), Version: a.programs.Version})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err = client.Ready(ctx)
	if w.registerable = err == nil; err == nil {
		return nil
	}
	fmt.Fprintf(a.Err, "%s.\n", clean(fault.Of(err).Message))
	if askErr := k.ask(context.WithoutCancel(ctx), question{title: "Write the settings all the same?", yes: &w.anyway}); askErr != nil {
		return askErr
	}
	if !w.anyway {
		return err
	}
	return nil
}

func (w *answers) settings() any {
	capacity, _ := strconv.Atoi(w.capacity) // was checked
	labels, _ := labelsOf(w.labels)
	runner := map[string]any{"Instance": w.instance, "Capacity": capacity}
	if len(labels) > 0 {
		runner["Labels"] = labels
	}
	if w.created {
		runner["Id"], runner["OrganizationId"] = w.id, w.organizationID
		runner["Credentials"] = map[string]any{"ClientId": w.clientID, "ClientSecret": w.clientSecret}
	} else {
		runner["Name"], runner["token_file"] = w.name, w.tokenFile
	}
	return map[string]any{"Server": map[string]any{"Url": w.server}, "Runner": runner,
		"WorkingDirectory": map[string]any{"WorkingDirectory": w.folder}}
}

// writeSettings writes a file of mode 0600. One that is there is replaced whole, and only when that was asked for.
func writeSettings(path string, settings any, overwrite bool) (err error) {
	if !overwrite {
		file, err := newSettingsFile(path)
		if err != nil {
			return err
		}
		return errors.Join(writeJSON(file, settings), file.Close())
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // of mode 0600
	if err == nil {
		err = errors.Join(writeJSON(file, settings), file.Close())
		if err == nil {
			err = os.Rename(file.Name(), path)
		}
		if err != nil {
			os.Remove(file.Name())
		}
	}
	if err != nil {
		return fault.New(fault.Invalid, "file", "the file %s cannot be written", path).WithCause(err)
	}
	return nil
}

// offer registers and starts the Runner, where that is wanted.
func (a *app) offer(ctx context.Context, k *asker, w *answers, file string) error {
	options := StartOptions{File: file}
	token := ""
	w.register = true
	if !w.created {
		registering := func() bool { return w.register }
		err := k.ask(ctx, question{title: "Register the Runner now?", yes: &w.register, when: func() bool { return w.registerable }},
			question{title: "Registration token", hint: "from an owner: legwork runner token create; empty to register later", text: &token, secret: true,
				when: func() bool { return w.registerable && registering() }})
		if err != nil {
			return err
		}
		if token == "" {
			fmt.Fprintf(a.Err, "Register it with: legwork runner register --config %s\n", file)
			return nil
		}
		done, err := a.programs.Register(ctx, options, func(bool) (string, error) { return token, nil })
		for k.lines == nil && fault.Is(err, fault.Unauthenticated) && token != "" { // typed by a person, who may try again
			fmt.Fprintf(a.Err, "%s\n", sentence(fault.Of(err).Message))
			token = ""
			again := question{title: "Registration token", hint: "that one was not taken; empty to register later", text: &token, secret: true}
			if err := k.ask(ctx, again); err != nil {
				return err
			}
			if token == "" {
				fmt.Fprintf(a.Err, "Register it with: legwork runner register --config %s\n", file)
				return nil
			}
			done, err = a.programs.Register(ctx, options, func(bool) (string, error) { return token, nil })
		}
		if err != nil {
			return err
		}
		if err := a.showRegistered(done); err != nil {
			return err
		}
	}
	if err := k.ask(ctx, question{title: "Start the Runner now?", yes: &w.start}); err != nil {
		return err
	}
	if !w.start {
		fmt.Fprintf(a.Err, "Start it with: legwork runner start --config %s\n", file)
		return nil
	}
	return a.programs.Runner(ctx, options, a.Out)
}
