package remote

import (
	"strings"

	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

// MaxOutput is how many bytes a command may write to its LEGWORK_OUTPUT.
const MaxOutput = 32 << 10

var outputName = lazyregexp.New(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,254}$`)

// ParseOutput reads what was written to a LEGWORK_OUTPUT file, wherever the command ran: lines "name=value", and values of several lines as
// "name<<WORD", the lines, and WORD alone. Lines may end as on Windows. Of values of the same name the last one holds. Empty lines are left out.
// What is not UTF-8 becomes "?". Text of more than 32 KiB and other lines are the fault output_invalid.
func ParseOutput(text string) (map[string]string, error) {
	if len(text) > MaxOutput {
		return nil, fault.New(fault.Invalid, "output_invalid", "the command wrote more than 32 KiB to LEGWORK_OUTPUT").
			WithHint("pass on a path or an address instead of the content")
	}
	values := map[string]string{}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\r\n", "\n")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if strings.TrimSpace(line) == "" {
			continue
		}
		at := strings.IndexAny(line, "=<")
		if at < 0 {
			return nil, outputFault(i+1, "is neither name=value nor name<<WORD")
		}
		name := line[:at]
		if !outputName.MatchString(name) {
			return nil, outputFault(i+1, "does not begin with a name of letters, digits, _, . and -")
		}
		if line[at] == '=' {
			values[name] = line[at+1:]
			continue
		}
		word, ok := strings.CutPrefix(line[at:], "<<")
		if word = strings.TrimSpace(word); !ok || word == "" {
			return nil, outputFault(i+1, "is neither name=value nor name<<WORD")
		}
		end := i + 1
		for end < len(lines) && lines[end] != word {
			end++
		}
		if end == len(lines) {
			return nil, outputFault(i+1, "begins a value whose end is missing")
		}
		values[name] = strings.Join(lines[i+1:end], "\n")
		i = end
	}
	return values, nil
}

func outputFault(line int, what string) error {
	return fault.New(fault.Invalid, "output_invalid", "line %d of LEGWORK_OUTPUT %s", line, what).
		WithHint("write lines like name=value to the file that LEGWORK_OUTPUT names")
}
