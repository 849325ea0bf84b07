// Package leaktest looks for goroutines that the tests of a package leave behind.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines have to end: goleak alone gives them less than half a second, which is not enough for a busy machine.
const patience = time.Minute

// Main runs the tests of a package, and ends the program with an error when they pass and goroutines are left.
func Main(m *testing.M, options ...goleak.Option) { os.Exit(Check(m.Run(), options...)) }

// Check gives the exit code of tests that ended with code: another one than 0 where goroutines are left, which it names on standard error.
func Check(code int, options ...goleak.Option) int {
	if code != 0 {
		return code
	}
	if err := find(patience, options...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// find names the goroutines that are left after that time.
func find(most time.Duration, options ...goleak.Option) error {
	err := goleak.Find(options...)
	for deadline := time.Now().Add(most); err != nil && time.Now().Before(deadline); {
		err = goleak.Find(options...)
	}
	return err
}
