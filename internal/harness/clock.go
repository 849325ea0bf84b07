package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var clocks struct {
	sync.Mutex
	built map[time.Duration]string
	dir   string
}

// WrongClock gives a build of the program whose wall clock is wrong by so much. No clock of the host is touched: the package time of
// the build adds it in time.Now. All other packages are those of the usual build, so this compiles one package and links.
func WrongClock(t testing.TB, by time.Duration) string {
	t.Helper()
	clocks.Lock()
	defer clocks.Unlock()
	if clocks.built[by] != "" {
		return clocks.built[by]
	}
	if clocks.dir == "" {
		dir, err := os.MkdirTemp("", "legwork-clock-")
		if err != nil {
			t.Fatal(err)
		}
		clocks.dir, clocks.built = dir, map[time.Duration]string{}
	}
	path, err := buildWrong(filepath.Join(clocks.dir, fmt.Sprint(len(clocks.built))), int64(by/time.Second))
	if err != nil {
		t.Fatal(err)
	}
	clocks.built[by] = path
	return path
}

// buildWrong builds in a folder of its own.
func buildWrong(dir string, seconds int64) (path string, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	archives, err := goTool("", "list", "-export", "-deps", "-f", "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}", "./cmd/legwork")
	if err != nil {
		return "", err
	}
	sources, err := goTool("", "list", "-f", "{{.Dir}}{{range .GoFiles}} {{.}}{{end}}", "time")
	if err != nil {
		return "", err
	}
	config := filepath.Join(dir, "usual")
	if err := os.WriteFile(config, []byte(archives), 0o600); err != nil {
		return "", err
	}
	wrong := filepath.Join(dir, "time.a")
	if err := compileTime(dir, config, wrong, strings.Fields(sources), seconds); err != nil {
		return "", err
	}
	var linked strings.Builder
	program := ""
	for line := range strings.Lines(archives) {
		if strings.HasPrefix(line, "packagefile time=") {
			line = "packagefile time=" + wrong + "\n"
		}
		if main, found := strings.CutPrefix(line, "packagefile legwork/cmd/legwork="); found {
			program = strings.TrimSpace(main)
		}
		linked.WriteString(line)
	}
	config, path = filepath.Join(dir, "wrong"), filepath.Join(dir, "legwork")
	if err := os.WriteFile(config, []byte(linked.String()), 0o600); err != nil {
		return "", err
	}
	_, err = goTool("", "tool", "link", "-o", path, "-importcfg", config, "-buildmode=exe", program)
	return path, err
}

// compileTime compiles the package time with a clock that is wrong. Its line numbers and names stay, and the file goes by its usual
// name: with anything else the linker takes the result for another package than the one the program was compiled with.
func compileTime(dir, config, out string, sources []string, seconds int64) error {
	folder, files := sources[0], sources[1:]
	text, err := os.ReadFile(filepath.Join(folder, "time.go"))
	if err != nil {
		return err
	}
	const usual = "\tsec += unixToInternal - minWall\n"
	if bytes.Count(text, []byte(usual)) != 1 {
		return fmt.Errorf("time.Now of this Go is not as WrongClock knows it")
	}
	text = bytes.Replace(text, []byte(usual), fmt.Appendf(nil, "\tsec += %d + unixToInternal - minWall\n", seconds), 1)
	changed := filepath.Join(dir, "time.go")
	if err := os.WriteFile(changed, text, 0o600); err != nil {
		return err
	}
	version, err := goTool("", "env", "GOVERSION")
	if err != nil {
		return err
	}
	args := []string{"tool", "compile", "-o", out, "-p", "time", "-std", "-pack", "-nolocalimports", "-importcfg", config,
		"-goversion", strings.TrimSpace(version), "-trimpath", changed + "=>$GOROOT/src/time/time.go"}
	for _, file := range files {
		if file == "time.go" {
			args = append(args, changed)
		} else {
			args = append(args, filepath.Join(folder, file))
		}
	}
	_, err = goTool(folder, args...)
	return err
}

// goTool runs the go command for a program as Binary builds it.
func goTool(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	if dir == "" {
		cmd.Dir = Root()
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args[:min(2, len(args))], " "), err, tail(said.String(), 2000))
	}
	return string(out), nil
}
