package expression_test

import (
	"strconv"
	"strings"
	"testing"

	"legwork/internal/expression"
	"legwork/internal/fault"
)

// TestShellIsBounded: a text that would take the parser's stack, or hours of the check, is refused. A stack that
// overflows would end the process of this test.
func TestShellIsBounded(t *testing.T) {
	const value = "echo ${option.x}"
	fill := func(text string, size int) string { return strings.Repeat(text, size/len(text)) }
	for name, text := range map[string]string{
		"subshells":      fill("( ", 1<<20) + value,
		"arithmetic":     fill("((", 1<<20-len(value)) + value,
		"negations":      "echo $((" + fill("!", 1<<20-64) + "1)); " + value,
		"minus":          "echo $((" + fill("- ", 100<<10) + "1)); " + value,
		"blocks":         fill("{ ", 100<<10) + value + fill("; }", 20<<10),
		"large":          value + fill("\necho a", 200<<10),
		"pipe":           value + fill(" | cat", 100<<10),
		"pipe before":    fill("cat | ", 100<<10) + value,
		"redirections":   "{ " + fill("echo a;", 50<<10) + "} " + fill(" <<<a", 50<<10) + "; " + value,
		"wrappers":       fill("sudo ", 100<<10) + value,
		"containers":     "env " + fill("docker sh ", 100<<10) + " ${option.x}",
		"function names": functions(8000) + value,
	} {
		if _, _, err := expression.Shell(text); fault.Code(err) != "template" {
			t.Errorf("%s, %d KiB: got %v, want it refused", name, len(text)>>10, err)
		}
	}
	for name, text := range map[string]string{
		"plain":     value + fill("\necho a", 30<<10),
		"templates": fill(value+" | cat\n", 30<<10),
		"functions": functions(100) + value,
		"options":   value + fill(" --name=-", 30<<10),
	} {
		if _, _, err := expression.Shell(text); err != nil {
			t.Errorf("%s, %d KiB: got %v, want it accepted", name, len(text)>>10, err)
		}
	}
}

// functions declares functions, each of which calls the next one.
func functions(n int) string {
	var b strings.Builder
	for i := range n {
		name := strings.Repeat("f", 1+i%7) + strings.Map(func(r rune) rune { return 'a' + r - '0' }, strconv.Itoa(i))
		next := strings.Repeat("f", 1+(i+1)%7) + strings.Map(func(r rune) rune { return 'a' + r - '0' }, strconv.Itoa(i+1))
		b.WriteString(name + "(){ " + next + ";};")
	}
	return b.String()
}
