package runbook

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/expression"
	"legwork/internal/fault"
)

// Limits of the values of Options. A value reaches a command as environment, which Linux holds to 128 KiB each; files do not.
const (
	MaxValueBytes = catalog.MaxVariableBytes
	MaxFileBytes  = 1 << 20
	MaxListValues = 1_000
)

// Values are those of the Options of one Runbook, checked, each of its type.
type Values struct {
	// Plain are all but secrets: string, float64, bool, []string; of a date the text; of a file its contents. An Option without a
	// value is not there.
	Plain map[string]any
	// Given are the secrets that were given for this Job alone, in clear, by the name of their Option. They are to be
	// sealed at once, and reach the Runner as GivenSecret names them.
	Given map[string]string
	// Named are the secret Options that take a Secret: the names of the Secrets, by that of the Option.
	Named map[string]string
	// Files are the names of the file Options that have a value.
	Files []string
}

// GivenSecret is the name under which the value of a secret Option that was given for one Job reaches the Runner. No Secret
// can have such a name.
func GivenSecret(option string) string { return "option:" + option }

// scope makes what the steps of a Runbook see of the values of its Options.
func (v Values) scope(env map[string]string) Scope {
	s := Scope{Values: v.Plain, Files: v.Files, Env: env}
	if len(v.Given)+len(v.Named) == 0 {
		return s
	}
	s.Secrets = maps.Clone(v.Named)
	if s.Secrets == nil {
		s.Secrets = map[string]string{}
	}
	for name := range v.Given {
		s.Secrets[name] = GivenSecret(name)
	}
	return s
}

// Resolve checks the values that were given to Options and fills in defaults. Values are either typed, as JSON has them, or texts
// as they stand on a command line: "3", "true", "a,b". nil is no value, and neither is the empty text but for
// strings, lists and files; a required one is not empty. The values that an Option with ValuesFrom offers
// must have been put into its Values.
//
// Everything that is wrong is named in one Invalid Fault of code `options_invalid`, with Details by "options.NAME". No
// message holds the value of a secret.
func Resolve(options []catalog.Option, given map[string]any) (Values, error) {
	v := Values{Plain: map[string]any{}, Given: map[string]string{}, Named: map[string]string{}}
	var problems []fault.Problem
	add := func(name, problem string) {
		problems = append(problems, fault.Problem{Field: "options." + name, Message: problem})
	}
	names := make([]string, len(options))
	for i, o := range options {
		names[i] = o.Name
		value := given[o.Name]
		if problem := v.take(o, value, value != nil && !blank(o, value)); problem != "" {
			add(o.Name, problem)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(names, name) {
			continue
		}
		problem := "the Runbook has no such option"
		if near := catalog.Nearest(name, names); near != "" {
			problem += fmt.Sprintf("; did you mean %q?", near)
		}
		add(brief(name), problem)
	}
	return v, optionsFault(problems)
}

func optionsFault(problems []fault.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	f := fault.New(fault.Invalid, "options_invalid", "%s", problems[0])
	if more := len(problems) - 1; more > 0 {
		f.Message += fmt.Sprintf(", and %d more", more)
	}
	return f.WithHint("`legwork runbook show` lists the options and what they take").WithDetails(problems...)
}

// blank tells whether a value is the empty text that a form sends for a field that nobody filled in.
func blank(o catalog.Option, value any) bool {
	switch o.Type {
	case catalog.StringOption, "", catalog.ListOption, catalog.FileOption:
		return false
	}
	return value == ""
}

// take puts the value of one Option where it belongs, or says what is wrong with it.
func (v *Values) take(o catalog.Option, value any, given bool) string {
	if o.Type == catalog.SecretOption {
		return v.takeSecret(o, value, given)
	}
	if !given {
		value = o.Default
	}
	if value == nil {
		if o.Required {
			return "is required"
		}
		return ""
	}
	typed, problem := typedValue(o, value)
	if problem != "" {
		return problem
	}
	if o.Required && typed == "" {
		return "is required, and empty"
	}
	v.Plain[o.Name] = typed
	if o.Type == catalog.FileOption {
		v.Files = append(v.Files, o.Name)
	}
	return ""
}

func (v *Values) takeSecret(o catalog.Option, value any, given bool) string {
	text, ok := value.(string)
	switch {
	case !given && o.Secret != "":
		v.Named[o.Name] = o.Secret
	case !given && o.Required:
		return "is required"
	case !given:
	case !ok:
		return "wants a text"
	case textProblem(text, MaxValueBytes) != "":
		return textProblem(text, MaxValueBytes)
	case !matches(o.Pattern, text):
		return fmt.Sprintf("does not match the pattern %s", brief(o.Pattern))
	default:
		v.Given[o.Name] = text
	}
	return ""
}

// typedValue makes a value one of the Option's type.
func typedValue(o catalog.Option, value any) (any, string) {
	switch o.Type {
	case catalog.NumberOption:
		return number(o, value)
	case catalog.BooleanOption:
		return boolean(value)
	case catalog.ListOption:
		return list(o, value)
	}
	text, ok := value.(string)
	if !ok {
		if rounded(value) {
			return nil, "is a number that is too large to be kept digit by digit: put it in quotes"
		}
		if text, ok = scalarText(value); !ok || o.Type == catalog.DateOption || o.Type == catalog.FileOption {
			return nil, "wants a text"
		}
	}
	switch o.Type {
	case catalog.FileOption:
		return text, textProblem(text, MaxFileBytes)
	case catalog.DateOption:
		return text, dateProblem(text)
	}
	return text, elementProblem(o, text)
}

// scalarText writes numbers and booleans, which YAML and JSON make of what was meant as a text.
func scalarText(value any) (string, bool) {
	switch x := value.(type) {
	case bool:
		return strconv.FormatBool(x), true
	case float64:
		return formatNumber(x), true
	case int:
		return strconv.Itoa(x), true
	case int64:
		return strconv.FormatInt(x, 10), true
	case json.Number:
		return x.String(), true
	}
	return "", false
}

// exactNumbers is where a 64-bit float stops holding every whole number.
const exactNumbers = 1 << 53

// rounded reports whether a value is a number that JSON may have rounded.
func rounded(value any) bool {
	f, ok := value.(float64)
	return ok && math.Abs(f) >= exactNumbers
}

func formatNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func number(o catalog.Option, value any) (any, string) {
	text, ok := value.(string)
	if !ok {
		if _, isBool := value.(bool); isBool {
			return nil, "wants a number"
		}
		if text, ok = scalarText(value); !ok {
			return nil, "wants a number"
		}
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	switch {
	case err != nil || math.IsInf(f, 0) || math.IsNaN(f) || strings.ContainsAny(text, "xX_"):
		return nil, fmt.Sprintf("wants a number, found %s", brief(text))
	case math.Abs(f) >= exactNumbers:
		return nil, "wants a number below 9007199254740992; make it a string option to keep every digit"
	case o.Min != nil && f < *o.Min:
		return nil, fmt.Sprintf("wants at least %s, found %s", formatNumber(*o.Min), brief(text))
	case o.Max != nil && f > *o.Max:
		return nil, fmt.Sprintf("wants at most %s, found %s", formatNumber(*o.Max), brief(text))
	}
	return f, ""
}

func boolean(value any) (any, string) {
	switch x := value.(type) {
	case bool:
		return x, ""
	case string:
		switch strings.ToLower(strings.TrimSpace(x)) {
		case "true", "yes", "on", "1":
			return true, ""
		case "false", "no", "off", "0":
			return false, ""
		}
	}
	return nil, "wants true or false"
}

func list(o catalog.Option, value any) (any, string) {
	var texts []string
	switch x := value.(type) {
	case string:
		for text := range strings.SplitSeq(x, ",") {
			if text = strings.TrimSpace(text); text != "" {
				texts = append(texts, text)
			}
		}
	case []string:
		texts = x
	case []any:
		for i, element := range x {
			text, ok := element.(string)
			if !ok {
				if text, ok = scalarText(element); !ok || rounded(element) {
					return nil, fmt.Sprintf("wants texts, and its value %d is none", i+1)
				}
			}
			texts = append(texts, text)
		}
	default:
		return nil, "wants a list of texts"
	}
	if len(texts) > MaxListValues {
		return nil, fmt.Sprintf("has %d values, more than %d", len(texts), MaxListValues)
	}
	for i, text := range texts {
		if strings.ContainsAny(text, ",\n") {
			return nil, fmt.Sprintf("value %d holds a comma or a new line, and the values of a list are handed on with commas between them", i+1)
		}
		if problem := elementProblem(o, text); problem != "" {
			return nil, fmt.Sprintf("value %d %s", i+1, problem)
		}
	}
	if texts == nil {
		texts = []string{}
	}
	if len(texts) == 0 && o.Required {
		return nil, "is required, and empty"
	}
	return texts, textProblem(strings.Join(texts, ","), MaxValueBytes)
}

func dateProblem(text string) string {
	_, day := time.Parse(time.DateOnly, text)
	if _, err := time.Parse(time.RFC3339, text); err != nil && day != nil {
		return fmt.Sprintf("wants a date such as 2026-01-31 or 2026-01-31T12:00:00Z, found %s", brief(text))
	}
	return ""
}

// elementProblem checks one text of a string, an enum or a list.
func elementProblem(o catalog.Option, text string) string {
	if problem := textProblem(text, MaxValueBytes); problem != "" {
		return problem
	}
	if closed(o) && !slices.Contains(o.Values, text) {
		return notOffered(o, text)
	}
	if !matches(o.Pattern, text) {
		return fmt.Sprintf("%s does not match the pattern %s", brief(text), brief(o.Pattern))
	}
	return ""
}

// closed tells whether an Option takes no values but those that it offers.
func closed(o catalog.Option) bool {
	if o.ValuesFrom != nil {
		return o.ValuesFrom.Strict
	}
	return o.Type == catalog.EnumOption || len(o.Values) > 0
}

func notOffered(o catalog.Option, text string) string {
	if len(o.Values) == 0 {
		return "offers no values, and takes no others"
	}
	shown := o.Values[:min(len(o.Values), 20)]
	s := fmt.Sprintf("%s is none of %s", brief(text), strings.Join(shown, ", "))
	if more := len(o.Values) - len(shown); more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	if near := catalog.Nearest(text, o.Values); near != "" {
		s += fmt.Sprintf("; did you mean %q?", near)
	}
	return s
}

func textProblem(text string, most int) string {
	switch {
	case len(text) > most:
		return fmt.Sprintf("has %d bytes, more than %d", len(text), most)
	case strings.IndexByte(text, 0) >= 0:
		return "holds a byte that is zero"
	}
	return ""
}

// matches tells whether the whole text matches; a pattern that is none was refused when it was declared, and matches nothing.
func matches(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	re, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	return err == nil && re.MatchString(text)
}

func brief(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return strconv.Quote(s)
}

// ValuesURL gives the URL that the values of an Option come from, with those of earlier Options in it, escaped.
func ValuesURL(o catalog.Option, earlier map[string]any) (string, error) {
	if o.ValuesFrom == nil {
		return "", nil
	}
	t, err := expression.Parse(o.ValuesFrom.URL)
	if err != nil {
		return "", err
	}
	return t.ExpandURL(func(r expression.Ref) (string, error) {
		value, ok := earlier[r.Name]
		if r.Root != expression.Option || !ok {
			return "", fault.New(fault.Invalid, "options_invalid", "the values of %s hang on ${%s}, which has no value yet", o.Name, r).
				WithHint("give that option first")
		}
		return Text(value), nil
	})
}

// Text gives the value of an Option as a command gets it: numbers without an exponent, lists with commas between.
func Text(value any) string {
	switch x := value.(type) {
	case string:
		return x
	case []string:
		return strings.Join(x, ",")
	case []any: // a list that was read back from JSON
		texts := make([]string, len(x))
		for i, element := range x {
			texts[i] = Text(element)
		}
		return strings.Join(texts, ",")
	}
	text, _ := scalarText(value)
	return text
}
