//go:build race

package web_test

// patience is how many times longer things may take: the race detector makes them so much slower.
const patience = 8
