//go:build race

package control

// slowdown is how much slower everything may be that a test times.
const slowdown = 20
