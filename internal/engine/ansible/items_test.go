package ansible

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// loops is a playbook whose results are mostly in the items of loops.
const loops = `
- hosts: all
  gather_facts: false
  tasks:
  - name: commands
    ansible.builtin.shell: echo "hello {{ item }}"; exit {{ (item == 2) | ternary(3, 0) }}
    loop: [1, 2]
    ignore_errors: true
  - name: labels
    ansible.builtin.debug: {msg: "item says {{ item.name }}"}
    loop: [{name: a}, {name: b}]
    loop_control: {label: "{{ item.name }}"}
  - name: some
    ansible.builtin.command: "true"
    loop: [x, y]
    when: item == "y"
  - name: nested
    ansible.builtin.debug: {var: thing}
    vars: {thing: {a: [1]}}
  - name: text
    ansible.builtin.debug: {var: simple}
    vars: {simple: Debian}
  - name: variables
    ansible.builtin.debug: {var: item}
    with_items: [p, q]
  - name: quiet
    ansible.builtin.command: "echo {{ item }}"
    loop: [hidden-word]
    no_log: true
  - name: again
    ansible.builtin.command: "false"
    register: result
    until: result.rc == 0
    retries: 1
    delay: 0
    ignore_errors: true
  - name: last
    ansible.builtin.shell: echo "why {{ item }}" >&2; exit {{ item }}
    loop: [0, 4]
`

func TestLogHasLoopItemsAndVariables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.playbook(t, map[string]map[string]any{"web-1": {"ansible_connection": "local"}}, map[string]string{"site.yml": loops})
	var h heard
	r, err := p.Run(t.Context(), &h)
	if err != nil {
		t.Fatalf("%v\n%s", err, h.all())
	}
	log := regexp.MustCompile(` \(\d+\.\d s\)\n`).ReplaceAllString(h.all(), "\n") // how long something took
	at := 0
	for _, want := range []string{
		"changed: commands (item=1)", "    hello 1", "failed: commands (item=2) (exit status 3)", "    hello 2", "failed: commands (ignored)",
		"ok: labels (item=a)", "    item says a", "ok: labels (item=b)", "    item says b", "ok: labels",
		"skipped: some (item=x)", "changed: some (item=y)",
		"ok: nested", "    thing: {", `        "a": [`,
		"ok: text", "    simple: Debian",
		"ok: variables (item=p)", "    item: p", "    item: q",
		"changed: quiet (item=(hidden by no_log))",
		"retry: again (retries left: 1)", "failed: again (ignored) (exit status 1)",
		"changed: last (item=0)", "failed: last (item=4) (exit status 4)", "    why 4",
	} {
		line := "web-1: " + want + "\n"
		i := strings.Index(log[at:], line)
		if i < 0 {
			t.Fatalf("the log lacks %q after byte %d:\n%s", line, at, log)
		}
		at += i + len(line)
	}
	if strings.Contains(log, "hidden-word") || strings.Contains(log, "One or more items") || strings.Contains(log, "All items completed") {
		t.Errorf("the log has a hidden word, or a summary of items that it has:\n%s", log)
	}
	if got, want := byName(r)["web-1"].Message, "last (item=4): exit status 4: why 4"; got != want {
		t.Errorf("why the host failed: got %q, want %q", got, want)
	}
}

// arrivals is a Sink that passes every line on as it comes.
type arrivals chan string

func (a arrivals) Line(_, text string) { a <- text }
func (a arrivals) Output(string)       {}

// The second item waits for a file that the test makes once it has seen the first one.
func TestLoopItemsAreReportedAsTheyHappen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.playbook(t, map[string]map[string]any{"web-1": {"ansible_connection": "local"}}, map[string]string{"site.yml": `
- hosts: all
  gather_facts: false
  tasks:
  - name: wait
    ansible.builtin.shell: test {{ item }} = first || read -r line < {{ fifo }}
    loop: [first, second]
`})
	fifo := p.Dir + "/fifo"
	p.Step.ExtraVars = map[string]any{"fifo": fifo}
	makeFIFO(t, fifo)
	lines := make(arrivals, 100)
	over := make(chan error, 1)
	go func() {
		_, err := p.Run(t.Context(), lines)
		over <- err
		close(lines)
	}()
	for text := range lines {
		if strings.HasPrefix(text, "changed: wait (item=first)") {
			must(t, writeFIFO(fifo, "go on\n"))
		}
	}
	if err := <-over; err != nil {
		t.Error(fmt.Errorf("the playbook: %w", err))
	}
}
