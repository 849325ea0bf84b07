//go:build !race

package web_test

// patience is how many times longer things may take under the race detector than here.
const patience = 1
