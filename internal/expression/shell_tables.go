package expression

// What shells and common programs evaluate. The tables are about values: what a script itself writes out is its
// author's affair.
var (
	// codeVariables are read as commands, as options, or as places of programs and libraries.
	codeVariables = []string{
		"PS0", "PS1", "PS2", "PS3", "PS4", "BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "IFS",
		"PATH", "CDPATH", "SHELL", "BASH_LOADABLES_PATH", "BASH_XTRACEFD", "BASH_ALIASES", "BASH_CMDS", "FUNCNEST",
		"FPATH", "FIGNORE", "GLOBIGNORE", "INPUTRC", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "FCEDIT",
		"HISTFILE", "LESS", "LESSOPEN", "LESSCLOSE", "MANOPT", "TERMINFO", "PERL5OPT", "PERL5LIB", "PERL5DB",
		"PERLLIB", "PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PYTHONWARNINGS", "PYTHONINSPECT", "RUBYOPT",
		"RUBYLIB", "NODE_OPTIONS", "NODE_PATH", "LUA_INIT", "LUA_PATH", "LUA_CPATH", "PHPRC", "PHP_INI_SCAN_DIR",
		"R_PROFILE", "SSH_ASKPASS", "SUDO_ASKPASS", "SUDO_EDITOR", "RSYNC_RSH", "RSYNC_CONNECT_PROG", "CVS_RSH",
		"SVN_SSH", "HGEDITOR", "TAR_OPTIONS", "TAPE", "MAKEFLAGS", "GNUMAKEFLAGS", "MFLAGS", "MAKEFILES",
		"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_OPTS", "MAVEN_ARGS", "AWKPATH",
		"AWKLIBPATH", "GCONV_PATH", "LOCPATH", "HOSTALIASES", "ZDOTDIR", "OPENSSL_CONF", "OPENSSL_ENGINES",
		"OPENSSL_MODULES", "KUBE_EDITOR", "CURL_HOME", "WGETRC", "PGSYSCONFDIR", "PSQLRC", "PSQL_PAGER",
		"PSQL_EDITOR",
	}
	codePrefixes = []string{"LD_", "DYLD_", "BASH_FUNC_", "GIT_", "ANSIBLE_", "NPM_CONFIG_", "npm_config_"}
	// numberVariables are evaluated as arithmetic when they are assigned.
	numberVariables = []string{
		"RANDOM", "SRANDOM", "SECONDS", "LINENO", "OPTIND", "HISTCMD", "EPOCHSECONDS", "HISTSIZE", "HISTFILESIZE",
	}

	// codeCommands evaluate their arguments, or run them as commands.
	codeCommands = []string{
		"eval", "source", ".", "let", "trap", "unset", "read", "mapfile", "readarray", "getopts", "alias",
		"compgen", "complete", "compopt", "bind", "hash", "enable", "fc", "history", "shopt", "scp", "sftp", "mosh",
		"rsync", "pdsh", "parallel", "watch", "at", "batch", "crontab", "make", "gmake", "ed", "ex", "vi", "vim",
		"nvim", "emacs", "expect", "tclsh", "gdb", "m4", "tmux", "screen", "script", "osascript", "dc", "rlwrap",
		"entr", "socat", "busctl",
	}
	// inputCommands run what they read from their input.
	inputCommands = []string{
		"sh", "bash", "rbash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh", "fish", "csh", "tcsh", "python",
		"python2", "python3", "perl", "ruby", "node", "php", "pwsh", "lua", "tclsh", "su", "ssh", "at", "batch",
		"crontab", "parallel", "ed", "ex", "vim", "dc", "m4", "gdb", "expect", "source", ".", "psql", "mysql",
		"mariadb", "sqlite3", "sftp", "busybox", "nodejs", "pypy", "deno", "bun", "luajit", "irb", "groovy", "Rscript",
	}
	// startedInterpreters are those of inputCommands that other commands start where their arguments name them.
	startedInterpreters = []string{
		"sh", "bash", "rbash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh", "fish", "csh", "tcsh", "python", "python2",
		"python3", "perl", "ruby", "node", "nodejs", "php", "pwsh", "lua", "luajit", "pypy", "su", "ssh", "psql", "mysql",
		"mariadb", "sqlite3", "busybox",
	}
	// dataCommands are filters that start no program, whatever their arguments say.
	dataCommands = []string{
		"cat", "cut", "echo", "egrep", "fgrep", "grep", "head", "jq", "md5sum", "printf", "sha256sum", "sort", "tail", "tee",
		"tr", "uniq", "wc", "yq", "base64", "gzip", "test", "[", "sed", "gsed", "awk", "gawk", "mawk", "nawk", "rm", "mkdir",
	}
	// containerCommands start the command that follows -- in a container or on another host.
	containerCommands = []string{
		"kubectl", "oc", "docker", "podman", "nerdctl", "crictl", "ctr", "lxc", "incus", "nomad", "machinectl", "gcloud",
	}
	// listCommands take the names of what they run from their input.
	listCommands = []string{"xargs", "parallel"}
	// readCommands assign their input to the variables that their arguments name.
	readCommands = []string{"read", "mapfile", "readarray"}

	// wrappers run the command that their arguments name: the options of each that take a value of their own, and
	// how many arguments come before the command.
	wrappers = map[string]struct {
		valued   []string
		operands int
	}{
		"command": {}, "builtin": {}, "time": {valued: []string{"-f", "-o"}}, "nohup": {},
		"setsid": {}, "coproc": {}, "busybox": {},
		"exec":   {valued: []string{"-a"}},
		"sudo":   {valued: []string{"-u", "-g", "-h", "-p", "-C", "-T", "-D", "--user", "--group", "--host", "--chdir"}},
		"doas":   {valued: []string{"-u"}},
		"env":    {valued: []string{"-u", "-C", "--unset", "--chdir"}},
		"nice":   {valued: []string{"-n", "--adjustment"}},
		"ionice": {valued: []string{"-c", "-n", "--class", "--classdata"}},
		"timeout": {valued: []string{"-s", "-k", "--signal", "--kill-after"},
			operands: 1},
		"stdbuf": {valued: []string{"-i", "-o", "-e"}}, "chroot": {operands: 1},
		"unshare": {}, "nsenter": {valued: []string{"-t"}},
		"setarch": {operands: 1}, "setpriv": {}, "runuser": {valued: []string{"-u", "-g", "-G"}},
		"chpst":  {valued: []string{"-u"}},
		"flock":  {valued: []string{"-w", "-E", "--timeout"}, operands: 1},
		"strace": {valued: []string{"-o", "-p", "-s"}}, "systemd-run": {},
		"xargs": {valued: []string{"-I", "-n", "-P", "-L", "-s", "-d", "-a", "-E"}}, "find": {operands: 1 << 20},
	}

	// programOptions are the options of commands that name a program to run, or hold a text that is evaluated.
	programOptions = map[string][]string{
		"git": {"-c", "--config-env", "--config", "--exec-path", "--upload-pack", "--receive-pack", "-u", "-x", "--exec",
			"--template", "--extcmd", "foreach", "run", "filter-branch"},
		"tar": {"-I", "--use-compress-program", "--to-command", "--checkpoint-action", "--rsh-command", "-F", "--info-script",
			"--new-volume-script", "--rmt-command"},
		"env":    {"-S", "--split-string"},
		"test":   {"-v", "-R"},
		"[":      {"-v", "-R"},
		"printf": {"-v"},
		"wait":   {"-p"},
		"find":   {"-exec", "-execdir", "-ok", "-okdir"},
		"sort":   {"--compress-program"},
		"split":  {"--filter"},
		"zip":    {"-TT", "--unzip-command"},
		"man":    {"-P", "-H", "--pager", "--html"},
		"psql":   {"-c", "--command"},
	}

	// guardedCommands have options that run programs, which a value in the place of an argument could be. The
	// options that take a value of their own are safe.
	guardedCommands = map[string][]string{
		"sed": {"-i", "-l"}, "gsed": {"-i", "-l"}, "ssh": {"-p", "-l", "-i"}, "sort": {"-k", "-t", "-o", "-S"},
		"split": {"-b", "-l", "-n", "-a"},
		"tar":   {"-f", "-C", "--file", "--directory", "-T", "-X", "--exclude"}, "zip": {"-x", "-i"}, "man": {"-M", "-S"},
	}
	// sshValued are the options of ssh that take a value; sshProgram are those whose value names a program, a file
	// of settings or another host.
	sshValued = []string{
		"-p", "-l", "-i", "-o", "-F", "-J", "-W", "-S", "-E", "-I", "-b", "-c", "-D", "-L", "-m", "-R", "-w",
	}
	sshProgram = []string{"-o", "-F", "-J", "-W", "-S", "-E", "-I"}
	// guardedGit are the commands of git that may start a program for a remote.
	guardedGit = []string{
		"clone", "fetch", "pull", "push", "ls-remote", "archive", "remote", "submodule", "rebase", "bisect", "difftool", "grep",
	}
)
