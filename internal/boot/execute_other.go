//go:build !unix

package boot

import "errors"

func execute(string, []string, []string) error { return errors.ErrUnsupported }
