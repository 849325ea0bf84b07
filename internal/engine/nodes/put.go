package nodes

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"time"

	"legwork/internal/fault"
)

const (
	cleanTimeout = 30 * time.Second // of removing a file
	putPiece     = 1 << 20          // bytes of a file that one command carries
	base64Line   = 57               // bytes that make a line of 76 letters
)

// tempPath gives a path that nobody guesses.
func tempPath(name string) string { return "/tmp/legwork-" + name + "-" + rand.Text() }

// putAs creates a file as the user that commands become. The contents travel as text, since scripts hold no
// zero bytes.
func putAs(ctx context.Context, on Target, name string, contents []byte) (string, error) {
	path := tempPath(name)
	for first := 0; first == 0 || first < len(contents); first += putPiece {
		piece := contents[first:min(first+putPiece, len(contents))]
		if err := appendAs(ctx, on, path, piece, first == 0); err != nil {
			return path, err
		}
	}
	return path, nil
}

// appendAs adds a piece to a file. The first piece creates the file.
func appendAs(ctx context.Context, on Target, path string, piece []byte, first bool) error {
	text := `base64 -d <"$2" >>"$1"`
	if first {
		text = `umask 077; set -C; base64 -d <"$2" >"$1"`
	}
	result, err := on.Run(ctx, Command{
		Script: base64Lines(piece), Interpreter: []string{"/bin/sh", "-c", text, "sh", path}, Sudo: true,
	})
	if err == nil && (result.ExitCode != 0 || result.Signal != "") {
		err = fault.New(fault.Failed, "upload_failed", "a file cannot be written for the user of the step").
			WithHint("check the free space and the mode of /tmp there, and that the user may run base64")
	}
	return err
}

// base64Lines encodes data in lines, which every shell can read.
func base64Lines(data []byte) []byte {
	var text []byte
	for line := range slices.Chunk(data, base64Line) {
		text = append(base64.StdEncoding.AppendEncode(text, line), '\n')
	}
	return text
}

// removeAs removes a file as the user that created it.
func removeAs(ctx context.Context, on Target, path string, sudo bool) error {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	_, err := on.Run(ctx, Command{Script: []byte("rm -f -- \"$1\"\n"), Args: []string{path}, Sudo: sudo})
	return err
}
