package runner

import (
	"path"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// programVariables are names of the environment with which a shell, the loader of programs, an interpreter or a tool
// that scripts often call runs code, or finds programs, elsewhere. A trailing * stands for any end.
var programVariables = []string{
	// shells
	"BASH_*", "BASHOPTS", "CDPATH", "ENV", "FPATH", "GLOBIGNORE", "IFS", "POSIXLY_CORRECT", "PROMPT_COMMAND", "PS0", "PS1",
	"PS2", "PS3", "PS4", "SHELL", "SHELLOPTS", "ZDOTDIR",
	// the loader and the C library
	"LD_*", "DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES", "HOSTALIASES", "LOCPATH", "MALLOC_*", "NLSPATH", "RES_OPTIONS",
	// where programs and their settings are found
	"PATH", "HOME", "TMPDIR", "XDG_*",
	// interpreters
	"PYTHON*", "PERL*", "RUBY*", "NODE_*", "NPM_CONFIG_*", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH",
	"LUA_*", "PHPRC", "PHP_INI_SCAN_DIR", "AWKPATH", "AWKLIBPATH", "GOFLAGS", "GOROOT", "GOENV",
	// tools that start what a variable names
	"GIT_*", "SSH_*", "EDITOR", "VISUAL", "PAGER", "*_PAGER", "LESS*", "BROWSER", "MAKEFILES", "MAKEFLAGS", "GNUMAKEFLAGS", "TAR_OPTIONS",
	"RSYNC_*", "WGETRC", "CURL_HOME", "OPENSSL_*", "KUBECONFIG", "DOCKER_*", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
	"TF_CLI_*", "TERRAGRUNT_*", "ANSIBLE_*", "PULUMI_*",
}

// checkVariables refuses Inputs of kind env that could make an approved script run other code. allowed are
// globs of names; when there are any, an Input must match one. Of programVariables only those are let
// through that allowed names in full.
func checkVariables(inputs []work.InputValue, allowed []string) error {
	for _, in := range inputs {
		if in.Kind != catalog.Env || slices.Contains(allowed, in.Name) {
			continue
		}
		if plainName(in.Name) && !matchesAny(programVariables, strings.ToUpper(in.Name)) && (len(allowed) == 0 || matchesAny(allowed, in.Name)) {
			continue
		}
		return fault.New(fault.Forbidden, "variable_not_approved", "the environment variable %.100q was refused: this Runner runs approved scripts alone, and a variable of this name could make them run something else", in.Name).
			WithHint("give the Input another name, or name it in HooksPreapproval.AllowedVariables of the Runner's settings")
	}
	return nil
}

func matchesAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, err := path.Match(glob, name)
		return ok && err == nil
	})
}

// plainName tells whether a name is one that a shell takes for that of a variable, and for nothing else.
func plainName(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
