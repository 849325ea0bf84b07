// Package hosting has the Instances of hosted Runners be there when Jobs want them, and go when none does.
package hosting
