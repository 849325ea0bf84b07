package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// maxOptionFile is one byte more than a file Option may hold, so that what is too large is seen.
const maxOptionFile = 1<<20 + 1

// givenOptions are the values of Options as flags have them.
type givenOptions struct {
	pairs []string // name=value
	stdin string   // name of the one that is read from the standard input
}

// readOptions gives the values of Options. Those of secret ones that are wanted and not there are asked for; of a retry the Server knows the others.
func (a *app) readOptions(options []catalog.Option, given givenOptions, retry bool) (map[string]any, error) {
	values := map[string]any{}
	for _, pair := range given.pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fault.New(fault.Invalid, "usage", "--option %q is no name=value", pair).WithHint("write --option name=value")
		}
		if _, twice := values[name]; twice {
			return nil, fault.New(fault.Invalid, "usage", "the option %s is given twice", name).WithHint("values of a list stand in one: --option %s=a,b", name)
		}
		value, err := optionValue(options, name, text)
		if err != nil {
			return nil, err
		}
		values[name] = value
	}
	if given.stdin != "" {
		if _, twice := values[given.stdin]; twice {
			return nil, fault.New(fault.Invalid, "usage", "the option %s is given twice", given.stdin).WithHint("leave out --option or --option-stdin")
		}
		text, err := io.ReadAll(io.LimitReader(a.In, maxOptionFile))
		if err != nil {
			return nil, fmt.Errorf("read the value of the option %s: %w", given.stdin, err)
		}
		values[given.stdin] = contents(options, given.stdin, text)
	}
	return values, a.askSecrets(options, values, retry)
}

func optionOf(options []catalog.Option, name string) (catalog.Option, bool) {
	i := slices.IndexFunc(options, func(o catalog.Option) bool { return o.Name == name })
	if i < 0 {
		return catalog.Option{}, false
	}
	return options[i], true
}

// optionValue reads what stands behind --option name=.
func optionValue(options []catalog.Option, name, text string) (string, error) {
	o, _ := optionOf(options, name) // that there is none is for the Server to say
	file, named := strings.CutPrefix(text, "@")
	switch {
	case o.Type != catalog.FileOption && o.Type != catalog.SecretOption:
		return text, nil
	case !named && o.Type == catalog.SecretOption:
		return "", fault.New(fault.Invalid, "secret_argument", "the option %s is secret, and what stands on a command line is seen by every user of the host", name).
			WithHint("leave it out to be asked, or use --option-stdin %s, or --option %s=@FILE", name, name)
	case !named:
		return text, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", unreadable(file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxOptionFile))
	if err != nil {
		return "", unreadable(file, err)
	}
	return contents(options, name, data), nil
}

// contents gives what was read as a value. Only a file keeps the end of its last line.
func contents(options []catalog.Option, name string, data []byte) string {
	if o, _ := optionOf(options, name); o.Type == catalog.FileOption {
		return string(data)
	}
	return strings.TrimRight(string(data), "\r\n")
}

// askSecrets asks for secret Options that must have a value and have none.
func (a *app) askSecrets(options []catalog.Option, values map[string]any, retry bool) error {
	for _, o := range options {
		if _, given := values[o.Name]; given || o.Type != catalog.SecretOption || !o.Required || o.Secret != "" {
			continue
		}
		if !isTerminal(a.In) || !a.err.is {
			f := fault.New(fault.Invalid, "secret_missing", "the secret option %s needs a value, and there is no terminal to ask on", o.Name)
			if retry {
				f = fault.New(fault.Invalid, "secret_missing", "the secret option %s needs its value again, and there is no terminal to ask on", o.Name)
			}
			return f.WithHint("use --option-stdin %s, or --option %s=@FILE", o.Name, o.Name)
		}
		text, err := a.askSecret("Value of " + clean(o.Name) + ": ")
		if err != nil {
			return errors.Join(fmt.Errorf("ask for the option %s", o.Name), err)
		}
		values[o.Name] = text
	}
	return nil
}
