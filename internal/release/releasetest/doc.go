// Package releasetest holds the test of what `make release` makes: it is built twice, from two copies of the sources in different folders
// with different times, and every file must be the same.
package releasetest
