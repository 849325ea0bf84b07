package expression

// wrapper is a command that runs the command which its arguments name.
type wrapper struct {
	valued   []string // options that take a value of their own
	operands int      // arguments before the command
}

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
		"PSQL_EDITOR", "HOME", "CC", "CXX", "CPP", "LD", "AR", "AS", "FC", "CFLAGS", "CXXFLAGS", "CPPFLAGS",
		"LDFLAGS",
		"CGO_CFLAGS", "CGO_LDFLAGS", "MAKE", "KUBECONFIG", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
		"DOCKER_CONFIG", "DOCKER_HOST", "PGSERVICEFILE", "MYSQL_HOME", "GNUPGHOME", "TF_DATA_DIR", "RUSTC", "RUSTDOC",
		"RUSTFLAGS", "JAVA_HOME", "JAVA_OPTS", "GRADLE_OPTS", "CATALINA_OPTS", "SBT_OPTS", "CLASSPATH", "BOTO_CONFIG",
		"CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR", "RIPGREP_CONFIG_PATH", "NETRC", "TERMCAP", "SYSTEMD_LESS",
	}
	codePrefixes = []string{
		"LD_", "DYLD_", "BASH_FUNC_", "GIT_", "ANSIBLE_", "NPM_CONFIG_", "npm_config_", "PYTHON", "PERL5", "PERLIO",
		"RUBY",
		"NODE_", "LUA_", "XDG_", "TF_CLI_", "GOFLAGS", "GOROOT", "GOPATH", "GOENV", "GOTOOL", "GOPROXY", "GOCACHE",
		"GOBIN", "CARGO_", "PIP_", "HELM_", "LESS", "OPENSSL_", "BUNDLE_", "GEM_", "DENO_",
		"COMPOSER_", "MAVEN_", "PULUMI_HOME", "BUILDKIT_", "YARN_", "EMACS", "VIM", "JDK_", "CMAKE_",
	}
	codeSuffixes = []string{"_WRAPPER", "EDITOR", "PAGER", "_ASKPASS", "_RSH", "_SSH_COMMAND", "_LAUNCHER"}
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
		"entr", "socat", "busctl", "su", "sg", "capsh", "sqlite3", "gmake", "lftp", "xdg-open",
	}
	// inputCommands run what they read from their input.
	inputCommands = []string{
		"sh", "bash", "rbash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh", "fish", "csh", "tcsh", "python",
		"python2", "python3", "perl", "ruby", "node", "php", "pwsh", "lua", "tclsh", "su", "ssh", "at", "batch",
		"crontab", "parallel", "ed", "ex", "vim", "dc", "m4", "gdb", "expect", "source", ".", "psql", "mysql",
		"mariadb", "sqlite3", "sftp", "busybox", "nodejs", "pypy", "deno", "bun", "luajit", "irb", "groovy",
		"Rscript",
	}
	// startedInterpreters are those of inputCommands that other commands start where their arguments name them.
	startedInterpreters = []string{
		"sh", "bash", "rbash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh", "fish", "csh", "tcsh", "python",
		"python2",
		"python3", "perl", "ruby", "node", "nodejs", "php", "pwsh", "lua", "luajit", "pypy", "su", "ssh", "psql",
		"mysql",
		"mariadb", "sqlite3", "busybox",
	}
	// dataCommands are filters that start no program and treat their input as data.
	dataCommands = []string{
		"cat", "cut", "echo", "egrep", "fgrep", "grep", "head", "jq", "md5sum", "printf", "sha256sum", "sort",
		"tail", "tee",
		"tr", "uniq", "wc", "yq", "base64", "gzip", "test", "[", "sed", "gsed", "awk", "gawk", "mawk", "nawk", "rm",
		"mkdir",
		"tac", "rev", "nl", "od", "xxd", "hexdump", "fold", "fmt", "column", "paste", "join", "comm", "diff", "cmp",
		"expand",
		"iconv", "sha1sum", "sha224sum", "sha384sum", "sha512sum", "b2sum", "cksum", "sum", "shasum", "base32",
		"gunzip",
		"zcat", "xz", "zstd", "bzip2", "bc", "basename", "dirname", "realpath", "readlink", "seq", "date",
		"strings", "ts",
		"xmllint", "envsubst", "dd", "sponge", "pv", "shuf", "tsort", "expr", "look", "pr", "ptx", "unexpand",
	}
	// inputReaders are further commands that treat their input as data, or do not read it.
	inputReaders = []string{
		":", "true", "false", "read", "mapfile", "readarray", "cd", "pwd", "return", "break", "continue", "exit",
		"shift",
		"wait", "sleep", "kill", "touch", "rmdir", "ln", "mv", "cp", "ls", "stat", "chown", "chgrp", "id", "whoami",
		"hostname", "uname", "logger", "wall", "chpasswd", "passwd", "openssl", "gpg", "aws", "az", "vault",
		"sendmail",
		"ping", "getent", "systemctl", "useradd", "userdel", "usermod", "groupadd", "skopeo", "crane", "pbcopy",
		"sysctl", "df", "du",
	}
	// fileWriters are commands that write their input or their arguments into files.
	fileWriters = []string{"tee", "dd", "sponge", "split", "csplit", "install", "cp", "mv", "sort", "awk", "gawk",
		"mawk",
		"nawk", "sed", "gsed", "shuf", "uniq", "xxd", "openssl", "gpg", "curl", "ln"}
	// fileRunners are commands, other than interpreters, that run commands from files.
	fileRunners = []string{"eval", "make", "gmake", "cmake", "ninja", "just", "task", "rake", "tmux", "screen",
		"script",
		"watch", "gdb", "entr", "systemd-run", "at", "batch", "crontab", "go", "java", "run-parts", "env", "sg",
		"capsh"}
	// containerCommands start the command that follows -- in a container or on another host.
	containerCommands = []string{
		"kubectl", "oc", "docker", "podman", "nerdctl", "crictl", "ctr", "lxc", "incus", "nomad", "machinectl",
		"gcloud",
	}
	// listCommands take the names of what they run from their input.
	listCommands = []string{"xargs", "parallel"}
	// readCommands assign their input to the variables that their arguments name.
	readCommands = []string{"read", "mapfile", "readarray"}

	// wrappers run the command that their arguments name.
	wrappers = map[string]wrapper{
		"taskset": {operands: 1}, "chrt": {valued: []string{"-T", "-P", "-D"}, operands: 1},
		"pkexec":  {valued: []string{"--user"}},
		"numactl": {valued: []string{"-C", "-m", "-N"}}, "prlimit": {}, "ltrace": {valued: []string{"-o", "-e"}},
		"valgrind": {},
		"fakeroot": {}, "gosu": {operands: 1}, "su-exec": {operands: 1}, "setuidgid": {operands: 1}, "tini": {},
		"dumb-init": {},
		"unbuffer":  {}, "chronic": {}, "xvfb-run": {}, "dbus-run-session": {}, "torsocks": {}, "proxychains4": {},
		"catchsegv": {},
		"linux32":   {}, "linux64": {}, "firejail": {}, "systemd-cat": {}, "systemd-inhibit": {},
		"cgexec":  {valued: []string{"-g"}},
		"command": {}, "builtin": {}, "time": {valued: []string{"-f", "-o"}}, "nohup": {},
		"setsid": {}, "coproc": {}, "busybox": {},
		"exec": {valued: []string{"-a"}},
		"sudo": {valued: []string{"-u", "-g", "-h", "-p", "-C", "-T", "-D", "--user", "--group", "--host",
			"--chdir"}},
		"doas":   {valued: []string{"-u"}},
		"env":    {valued: []string{"-u", "-C", "--unset", "--chdir"}},
		"nice":   {valued: []string{"-n", "--adjustment"}},
		"ionice": {valued: []string{"-c", "-n", "--class", "--classdata"}},
		"timeout": {valued: []string{"-s", "-k", "--signal", "--kill-after"},
			operands: 1},
		"stdbuf": {valued: []string{"-i", "-o", "-e"}}, "chroot": {operands: 1},
		"unshare": {}, "nsenter": {valued: []string{"-t", "--target", "-S", "-G"}},
		"setarch": {operands: 1}, "setpriv": {}, "runuser": {valued: []string{"-u", "-g", "-G"}},
		"chpst":  {valued: []string{"-u"}},
		"flock":  {valued: []string{"-w", "-E", "--timeout"}, operands: 1},
		"strace": {valued: []string{"-o", "-p", "-s"}}, "systemd-run": {},
		"xargs": {valued: []string{"-I", "-n", "-P", "-L", "-s", "-d", "-a", "-E"}}, "find": {operands: 1 << 20},
	}

	// programOptions are the options of commands that name a program to run, or hold a text that is evaluated.
	programOptions = map[string][]string{
		"git": {"-c", "--config-env", "--config", "--exec-path", "--upload-pack", "--receive-pack", "-u", "-x",
			"--exec",
			"--template", "--extcmd", "foreach", "run", "filter-branch"},
		"tar": {"-I", "--use-compress-program", "--to-command", "--checkpoint-action", "--rsh-command", "-F",
			"--info-script",
			"--new-volume-script", "--rmt-command"},
		"env":     {"-S", "--split-string"},
		"test":    {"-v", "-R"},
		"[":       {"-v", "-R"},
		"printf":  {"-v"},
		"wait":    {"-p"},
		"find":    {"-exec", "-execdir", "-ok", "-okdir"},
		"sort":    {"--compress-program"},
		"split":   {"--filter"},
		"zip":     {"-TT", "--unzip-command"},
		"man":     {"-P", "-H", "--pager", "--html"},
		"psql":    {"-c", "--command", "-f", "--file"},
		"mysql":   {"-e", "--execute", "--pager", "--init-command"},
		"mariadb": {"-e", "--execute", "--pager", "--init-command"},
		"rpm":     {"--eval", "-E", "-D", "--define", "--pipe", "--rcfile", "--macros"},
		"gcc":     {"-wrapper", "-B", "-specs", "-fplugin", "-Xlinker", "-Wl", "-Wa", "-Wp"},
		"g++":     {"-wrapper", "-B", "-specs", "-fplugin", "-Xlinker", "-Wl", "-Wa", "-Wp"},
		"cc":      {"-wrapper", "-B", "-specs", "-fplugin", "-Xlinker", "-Wl", "-Wa", "-Wp"},
		"clang":   {"-B", "-fplugin", "-Xclang", "-Xlinker", "-load"},
		"apt":     {"-o", "--option", "-c", "--config-file"}, "apt-get": {"-o", "--option", "-c", "--config-file"},
		"aptitude": {"-o"}, "dpkg": {"--pre-invoke", "--post-invoke", "--status-logger"},
		"nc":     {"-e", "-c", "--exec", "--sh-exec", "--lua-exec"},
		"ncat":   {"-e", "-c", "--exec", "--sh-exec", "--lua-exec"},
		"netcat": {"-e", "-c"}, "flock": {"-c", "--command"}, "systemd-run": {"-p", "--property", "-E", "--setenv"},
		"go": {"run", "-exec", "-toolexec", "-vettool", "-ldflags", "-gcflags", "-asmflags", "-overlay",
			"generate", "tool"},
		"curl": {"-K", "--config"}, "wget": {"--use-askpass", "-e", "--execute", "--config"},
		"ansible":          {"-a", "--args", "-e", "--extra-vars", "-m", "--module-name", "--ssh-", "-M"},
		"ansible-playbook": {"-e", "--extra-vars", "--ssh-", "-M"},
		"ssh-keygen":       {"-D", "-P11"}, "ssh-add": {"-s"}, "kubectl": {"--kubeconfig"}, "oc": {"--kubeconfig"},
		"helm": {"--post-renderer", "--kubeconfig"}, "cmake": {"-P", "-E", "-C"}, "install": {"--strip-program"},
		"tcpdump": {"-z"}, "nginx": {"-g", "-c"}, "npm": {"run", "exec", "explore"}, "npx": {"-c", "--call"},
	}

	// guardedCommands have options that run programs, which a value in the place of an argument could be. The
	// options that take a value of their own are safe.
	guardedCommands = map[string][]string{
		"sed": {"-i", "-l"}, "gsed": {"-i", "-l"}, "ssh": {"-p", "-l", "-i"}, "sort": {"-k", "-t", "-o", "-S"},
		"split": {"-b", "-l", "-n", "-a"}, "less": {}, "more": {}, "most": {}, "rpm": {}, "dpkg": {}, "apt": {"-t"},
		"apt-get":  {"-t"},
		"aptitude": {"-t"}, "yum": {}, "dnf": {}, "zypper": {}, "apk": {}, "pacman": {}, "snap": {}, "brew": {},
		"gcc": {"-o", "-x"},
		"g++": {"-o", "-x"}, "cc": {"-o", "-x"}, "clang": {"-o", "-x"}, "go": {"-o", "-run", "-tags"}, "npm": {},
		"npx": {}, "yarn": {},
		"pnpm": {}, "pip": {}, "pip3": {}, "gem": {"-v"}, "cargo": {}, "nc": {"-w", "-p", "-s"}, "ncat": {"-w", "-p"},
		"netcat": {"-w", "-p"}, "ssh-keygen": {"-f", "-C", "-N", "-t", "-b"}, "cmake": {"-S", "-B"},
		"tcpdump": {"-i", "-w", "-c"},
		"psql": {"-d", "-h", "-U", "-p", "-v", "-o", "--dbname", "--host", "--username", "--port", "--set",
			"--variable"},
		"mysql":   {"-h", "-u", "-P", "-D", "--host", "--user", "--port", "--database"},
		"mariadb": {"-h", "-u", "-P", "-D", "--host", "--user", "--port", "--database"},
		"curl":    curlValued,
		"wget":    {"-O", "-o", "-P", "--header", "--user", "--post-data", "-U", "-T", "-t", "--timeout", "--tries"},
		"docker":  containerValued, "podman": containerValued, "nerdctl": containerValued,
		"kubectl": kubectlValued, "oc": kubectlValued,
		"helm": {"-n", "--namespace", "--version", "--set", "--set-string", "-f", "--values",
			"--kube-context", "--timeout"},
		"terraform": terraformValued, "tofu": terraformValued,
		"openssl":          {"-in", "-out", "-days", "-subj", "-passin", "-passout"},
		"ansible":          {"-i", "-l", "-u", "-f", "-t"},
		"ansible-playbook": {"-i", "-l", "-u", "-f", "-t", "--limit", "--tags"},
		"tar":              {"-f", "-C", "--file", "--directory", "-T", "-X", "--exclude"}, "zip": {"-x", "-i"},
		"man": {"-M", "-S"},
	}
	// sshValued are the options of ssh that take a value; sshProgram are those whose value names a program, a file
	// of settings or another host.
	sshValued = []string{
		"-p", "-l", "-i", "-o", "-F", "-J", "-W", "-S", "-E", "-I", "-b", "-c", "-D", "-L", "-m", "-R", "-w",
	}
	sshProgram = []string{"-o", "-F", "-J", "-W", "-S", "-E", "-I"}
	// guardedGit are the commands of git that may start a program for a remote.
	guardedGit = []string{
		"clone", "fetch", "pull", "push", "ls-remote", "archive", "remote", "submodule", "rebase", "bisect",
		"difftool", "grep",
		"log", "diff", "show", "shortlog", "format-patch", "rev-list", "blame",
	}

	curlValued = []string{
		"--url", "-o", "--output", "-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "-H",
		"--header", "-u", "--user",
		"-X", "--request", "-F", "--form", "-T", "--upload-file", "-m", "--max-time", "-A", "--user-agent", "-x",
		"--proxy",
		"--retry", "--json", "--resolve", "--cacert", "--cert", "--key", "--connect-timeout", "-b", "--cookie", "-e",
	}
	containerValued = []string{
		"--name", "-e", "--env", "-v", "--volume", "-p", "--publish", "-w", "--workdir", "-u", "--user", "-l",
		"--label",
		"-t", "--tag", "--network", "-f", "--file", "--build-arg", "--filter", "--format", "-h", "--hostname", "-m",
		"--memory",
		"--cpus", "--password", "--username", "--platform", "--target", "--since", "--tail", "-n",
	}
	kubectlValued = []string{
		"-n", "--namespace", "-l", "--selector", "-f", "--filename", "-c", "--container", "--context", "--image",
		"--replicas",
		"-p", "--patch", "--type", "-o", "--output", "--field-selector", "--tail", "--since", "--timeout", "--for",
		"-k",
	}
	terraformValued = []string{"-var", "-target", "-replace", "-out", "-lock-timeout"}
	// findValued are the tests and actions of find that take a value and run nothing.
	findValued = []string{
		"-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-lname", "-mtime", "-mmin",
		"-atime", "-amin",
		"-ctime", "-cmin", "-newer", "-type", "-size", "-user", "-group", "-uid", "-gid", "-perm", "-maxdepth",
		"-mindepth",
		"-printf", "-links", "-inum", "-fstype", "-regextype",
	}
)
