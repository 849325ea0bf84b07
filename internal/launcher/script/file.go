package script

import (
	"fmt"
	"io"
	"os"
	"strings"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// maxScript bounds the size of a script file, as that of a text in the record is.
const maxScript = 256 << 10

// script returns the text that is run. On the Server's own host it comes from a file there, never from the record: who may write the
// record would otherwise run anything as the user of the Server.
func (l *Launcher) script(task *work.RunnerTask) (string, error) {
	if task.Hosting == nil || task.Hosting.Exec == nil {
		return "", missing()
	}
	spec := task.Hosting.Exec
	limits := l.host.Limits
	switch {
	case spec.File != "" && (limits == nil || limits.Scripts == ""):
		return "", fault.New(fault.Forbidden, "launcher_script", "there is no folder of launcher scripts on this host").
			WithHint("name it as launcher_scripts in the settings of the server, or launch through a runner with hosting.exec.run")
	case spec.File != "":
		return readScript(limits.Scripts, spec.File)
	case limits != nil:
		return "", fault.New(fault.Forbidden, "launcher_script", "this server runs no script out of a record").
			WithHint("put it into the folder launcher_scripts of the server's settings and name it as hosting.exec.file, or launch through a runner on another host")
	case strings.TrimSpace(spec.Run) == "":
		return "", missing()
	}
	return spec.Run, nil
}

func missing() error {
	return fault.New(fault.Invalid, "launcher_script", "the Runner has no script that launches it").WithHint("say it in hosting.exec.run")
}

// readScript reads a file of the folder. Links that lead out of the folder are not followed.
func readScript(folder, name string) (string, error) {
	refused := func(why string, err error) error {
		return fault.New(fault.Forbidden, "launcher_script", "the launcher script %s of the folder %s cannot be used: %s", name, folder, why).
			WithHint("put it there as a plain file that only its owner can change").WithCause(err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", refused("the folder cannot be opened", err)
	}
	defer root.Close()
	file, err := root.Open(name)
	if err != nil {
		return "", refused("there is no such file", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("read a launcher script: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
		return "", refused("it is no plain file, or others than its owner can change it", nil)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxScript+1))
	if err != nil {
		return "", fmt.Errorf("read a launcher script: %w", err)
	}
	if len(text) > maxScript {
		return "", refused(fmt.Sprintf("it is larger than %d KiB", maxScript>>10), nil)
	}
	return string(text), nil
}
