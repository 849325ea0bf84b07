//go:build race

package nodes

const raceEnabled = true
