package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// handOverVar names the file descriptor from which a program reads what Spec.HandOver holds.
const handOverVar = "LEGWORK_HAND_OVER_FD"

// TakeHandedOver adds the entries of Spec.HandOver to the environment of this process. The kernel shows only the
// initial environment of a process to others, and these entries are not part of it.
func TakeHandedOver() error {
	number := os.Getenv(handOverVar)
	if number == "" {
		return nil
	}
	_ = os.Unsetenv(handOverVar)
	entries, err := readHandedOver(number)
	if err != nil {
		return fmt.Errorf("read the secrets of this process: %w", err)
	}
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("read the secrets of this process: %w", err)
		}
	}
	return nil
}

func readHandedOver(number string) (entries []string, err error) {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < firstExtraFile {
		return nil, fmt.Errorf("%s is %.20q, which is no file descriptor of a parent", handOverVar, number)
	}
	file := os.NewFile(uintptr(fd), "hand-over")
	if file == nil {
		return nil, fmt.Errorf("%s is %.20q, which is no file descriptor", handOverVar, number)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFrameIn+1))
	if err != nil {
		return nil, err
	}
	body, complete := bytes.CutSuffix(text, []byte(handOverEnd))
	if !complete {
		return nil, fmt.Errorf("%d bytes came, and not the end", len(text))
	}
	for entry := range bytes.SplitSeq(body, []byte{0}) {
		if len(entry) > 0 {
			entries = append(entries, string(entry))
		}
	}
	return entries, nil
}

const (
	// firstExtraFile is the descriptor of the first of exec.Cmd.ExtraFiles in the child.
	firstExtraFile = 3
	// handOverEnd follows the last entry. No entry is empty, so it marks a hand-over that is complete.
	handOverEnd = "\x00\x00"
)
