package engine_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"legwork/internal/engine"
	"legwork/internal/work"
)

const tofuLog = "Initializing...\n" +
	"\x1b[31m╷\x1b[0m\x1b[0m\n" +
	"\x1b[31m│\x1b[0m \x1b[0m\x1b[1m\x1b[31mError: \x1b[0m\x1b[0m\x1b[1mInvalid value for input variable\x1b[0m\n" +
	"\x1b[31m│\x1b[0m \x1b[0m\n" +
	"\x1b[31m│\x1b[0m \x1b[0m\x1b[0m  on main.tf line 10:\n" +
	"\x1b[31m│\x1b[0m \x1b[0m  10: variable \"size\" {\x1b[0m\n" +
	"\x1b[31m╵\x1b[0m\x1b[0m\n" +
	"╷\n│ Error: Another one\n╵\n"

const pulumiLog = "Previewing update (dev):\n" +
	"    pulumi:pulumi:Stack demo-dev running error: no such region\n" +
	"Diagnostics:\n" +
	"  pulumi:pulumi:Stack (demo-dev):\n" +
	"    \x1b[31merror: \x1b[0mPulumi.yaml:7,12-20: resource \"x\" not found\n" +
	"    error: another\n"

// TestExcerptNamesTheFirstError finds in the log of each engine its first error, and otherwise the last lines.
func TestExcerptNamesTheFirstError(t *testing.T) {
	for name, c := range map[string]struct {
		program, log, summary, location string
		lines                           []string
		seq                             uint64
	}{
		"opentofu": {"opentofu", tofuLog, "Invalid value for input variable", "main.tf line 10",
			[]string{"Error: Invalid value for input variable", "", "  on main.tf line 10:", "  10: variable \"size\" {"}, 3},
		"terraform without frame": {"terraform", "one\nError: No configuration files\n\nApply needs some.\n", "No configuration files", "",
			[]string{"Error: No configuration files", "", "Apply needs some."}, 2},
		"pulumi": {"pulumi", pulumiLog, `Pulumi.yaml:7,12-20: resource "x" not found`, "",
			[]string{"   error: Pulumi.yaml:7,12-20: resource \"x\" not found"}, 5},
		"ansible": {"ansible", "ok: first\nfailed: tolerated (ignored)\nfailed: install (exit status 2)\n    no space left\nok: other\n",
			"install (exit status 2)", "", []string{"failed: install (exit status 2)", "   no space left"}, 3},
		"ansible fatal": {"ansible", "fatal: [web-1]: UNREACHABLE!\n", "[web-1]: UNREACHABLE!", "", []string{"fatal: [web-1]: UNREACHABLE!"}, 1},
		"script": {"script", "Error: tolerated\n\na\r\n10%\r50%\rboom: cannot reach db\n", "", "",
			[]string{"Error: tolerated", "a", "boom: cannot reach db"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := excerptOf(c.program, records(c.log)...)
			want := &work.Excerpt{Summary: c.summary, Location: c.location, Lines: c.lines, Seq: c.seq}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// TestExcerptIsBounded quotes few short lines of a log however long it is, and nothing of what is no output.
func TestExcerptIsBounded(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	for _, program := range []string{"script", "opentofu"} {
		log := []work.Record{{Seq: 1, Stream: work.Stdout, Data: []byte("Error: " + long)}}
		for i := range 5000 {
			log = append(log, work.Record{Seq: uint64(i + 2), Stream: work.Stderr, Partial: i%7 > 0, Data: []byte(fmt.Sprint(long[:1000], i))})
		}
		x := excerptOf(program, log...)
		size := len(x.Summary)
		for _, line := range x.Lines {
			size += len(line)
		}
		if len(x.Lines) > 12 || size > 8<<10 || !strings.HasPrefix(x.Lines[0], "Error: ") && program == "opentofu" {
			t.Errorf("%s: got %d lines of %d bytes", program, len(x.Lines), size)
		}
	}
	if got := excerptOf("script", work.Record{Seq: 1, Stream: work.System, Data: []byte("fetched")}); got != nil {
		t.Errorf("got %+v of a log without output, want nil", got)
	}
}

// TestFailureNamesTheError puts the first error of the engine in the message of the failure.
func TestFailureNamesTheError(t *testing.T) {
	for want, x := range map[string]*work.Excerpt{
		"the plan failed (exit status 1)":                                     nil,
		"the plan failed: Invalid value for input variable (main.tf line 10)": {Summary: "Invalid value for input variable", Location: "main.tf line 10"},
		"the plan failed: no such region":                                     {Summary: "no such region"},
	} {
		got := engine.Failed(work.StepPlan, engine.Exit{Code: 1, Reason: engine.ReasonExited, Excerpt: x})
		if got.Failure.Message != want || got.Failure.Excerpt != x {
			t.Errorf("got %q, want %q", got.Failure.Message, want)
		}
	}
}

func records(log string) (all []work.Record) {
	for line := range strings.Lines(log) {
		all = append(all, work.Record{Seq: uint64(len(all) + 1), Stream: work.Stdout, Data: []byte(strings.TrimSuffix(line, "\n"))})
	}
	return all
}

func excerptOf(program string, log ...work.Record) *work.Excerpt {
	e := engine.NewExcerpter(program)
	for i := range log {
		e.Add(&log[i])
	}
	return e.Excerpt()
}
