// Package archtest holds the rules of the repository that the compiler does not: who may import
// whom, what the pure packages keep away from, how things are named and how long a file may be, and
// that every path the docs name exists. It has only tests; docs/ARCHITECTURE.md tells the reasons.
package archtest
