package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// inheritedVar names the file descriptor from which a process reads the settings that were taken out of its environment.
const inheritedVar = "LEGWORK_SETTINGS_FD"

// KeepPrivate prevents other processes of the same user from reading this process's memory and environment, which hold secrets. What it
// starts is not affected.
func KeepPrivate() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep the memory of this process private: %w", err)
	}
	return nil
}

// WithoutSettings returns the environment that this process was given, and sees to it that none of its settings are in the initial
// environment, which the kernel shows for as long as the process lives: where there are any it starts this program again, as the same
// process, and hands them over through a file in memory.
func WithoutSettings(isSetting func(name string) bool) (environ []string, err error) {
	if handed := os.Getenv(inheritedVar); handed != "" {
		_ = os.Unsetenv(inheritedVar)
		settings, err := takeSettings(handed)
		return append(os.Environ(), settings...), err
	}
	var settings, others []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if isSetting(name) {
			settings = append(settings, entry)
		} else {
			others = append(others, entry)
		}
	}
	if len(settings) == 0 {
		return others, nil
	}
	return os.Environ(), restart(settings, others)
}

// restart becomes this program again, with others as its environment. It returns only when that failed.
func restart(settings, others []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	fd, err := unix.MemfdCreate("legwork-settings", 0)
	if err != nil {
		return fmt.Errorf("hand over settings: %w", err)
	}
	defer unix.Close(fd)
	text := []byte(strings.Join(settings, "\x00"))
	if n, err := unix.Pwrite(fd, text, 0); err != nil || n != len(text) {
		return fmt.Errorf("hand over settings: %d of %d bytes were written: %w", n, len(text), err)
	}
	return unix.Exec(self, os.Args, append(others, inheritedVar+"="+strconv.Itoa(fd)))
}

func takeSettings(handed string) ([]string, error) {
	fd, err := strconv.Atoi(handed)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("take over settings: %q is no file descriptor", handed)
	}
	file := os.NewFile(uintptr(fd), "settings")
	defer file.Close()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("take over settings: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("take over settings: %w", err)
	}
	var settings []string
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		settings = append(settings, string(entry))
	}
	return settings, nil
}
