package releasetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// documents are paths that both packages hold next to the program and its units.
var documents = []string{"./usr/share/doc/legwork/README.md", "./usr/share/doc/legwork/docs/OPERATIONS.md",
	"./usr/share/doc/legwork/docs/schema/server.json", "./usr/share/doc/legwork/examples/runbook.yaml",
	"./usr/share/doc/legwork/deploy/kubernetes/runner.yaml", "./usr/share/man/man1/legwork.1.gz",
	"./usr/share/man/man1/legwork-server.1.gz", "./usr/share/man/man1/legwork-module-apply.1.gz",
	"./usr/share/man/man5/legwork-settings.5.gz", "./usr/share/bash-completion/completions/legwork",
	"./usr/share/fish/vendor_completions.d/legwork.fish", "./etc/legwork/server.env", "./etc/legwork/runner.env"}

var localLink = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

// linked checks that every relative link of the installed documents leads to an installed file.
func linked(t *testing.T, root string) {
	t.Helper()
	folder := filepath.Join(root, "usr", "share", "doc", "legwork")
	pages, err := filepath.Glob(filepath.Join(folder, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("got %d documents and error %v, want documents", len(pages), err)
	}
	for _, page := range append(pages, filepath.Join(folder, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range localLink.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), string(link[1]))); err != nil {
				t.Errorf("%s: got a link to %s that leads nowhere, want an installed file", filepath.Base(page), link[1])
			}
		}
	}
}

// shellsRead checks the syntax of the completions with each shell that this host has.
func shellsRead(t *testing.T, zsh, fish string) {
	t.Helper()
	for shell, script := range map[string]string{"zsh": zsh, "fish": fish} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed here: its completion is not read", shell)
			continue
		}
		if text, err := exec.Command(shell, "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s -n %s: %v\n%s", shell, script, err, text)
		}
	}
}

// overlayScript runs a script on a copy of this host that is gone afterwards: an overlay in a mount namespace of its
// own. Its arguments are the folder of the packages, which the script finds as /packages, and the script.
const overlayScript = `set -e
top=$(mktemp -d)
mount -t tmpfs tmpfs "$top"
mkdir "$top/upper" "$top/work" "$top/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
mount --rbind /dev "$top/root/dev"
mount --rbind /proc "$top/root/proc"
mount -t tmpfs tmpfs "$top/root/run"
mkdir "$top/root/packages"
mount --bind "$1" "$top/root/packages"
chroot "$top/root" /bin/bash -euc "$2"
`

// installScript installs the package, upgrades it, uses it, removes it and purges it. It prints facts as "name: value".
const installScript = `
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root
cd /
fact() { printf '%s: %s\n' "$1" "$2"; }
dpkg -P legwork >/dev/null 2>&1 || true
userdel legwork 2>/dev/null || true
dpkg --force-depends -i /packages/legwork.deb >/dev/null
fact user "$(id -un legwork) $(id -gn legwork)"
fact folder "$(stat -c '%a %U:%G' /etc/legwork)"
fact settings "$(stat -c '%a %U:%G' /etc/legwork/server.env)"
fact conffiles "$(dpkg-query -W -f '${Conffiles}' legwork | awk 'NF {printf "%s ", $1}')"
echo LEGWORK_SERVER__LISTEN=127.0.0.1:18440 >>/etc/legwork/server.env
dpkg --force-depends -i /packages/legwork.deb >/dev/null
fact upgraded "$(tail -n 1 /etc/legwork/server.env)"
fact version "$(legwork --version)"
fact units "$(systemd-analyze verify --recursive-errors=no /usr/lib/systemd/system/legwork-{server,runner}.service 2>&1 |
  grep legwork || true)"
fact page "$(man -P cat 5 legwork-settings | grep -o 'tls_cert (string)')"
fact warnings "$(man --warnings -P cat legwork-server 2>&1 >/dev/null)"
fact groff "$(zcat /usr/share/man/man1/legwork*.gz /usr/share/man/man5/legwork*.gz | groff -t -man -Tutf8 -ww -z 2>&1 | head -n 5)"
bash --norc -c '
  source /usr/share/bash-completion/bash_completion
  _completion_loader legwork || true
  echo "completion: $(complete -p legwork)"
  COMP_LINE="legwork mod" COMP_POINT=11 COMP_WORDS=(legwork mod) COMP_CWORD=1
  __start_legwork 2>/dev/null # compopt works on a terminal only
  echo "completed: ${COMPREPLY[*]%% *}"'
dpkg -r legwork >/dev/null 2>&1
fact removed "$(ls /usr/bin/legwork 2>/dev/null | xargs) $(ls /etc/legwork | xargs)"
dpkg -P legwork >/dev/null 2>&1
fact purged "$(find /usr/bin /usr/lib/systemd /usr/share /etc -path '*legwork*' -newer /packages/legwork.deb)"
fact stays "$(id -un legwork)"
`

// installs checks the package with dpkg itself, on a copy of this host.
func installs(t *testing.T, file string) {
	t.Helper()
	folder := t.TempDir()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "legwork.deb"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	if exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Log("this process may not make mount namespaces: the package is not installed")
		return
	}
	text, err := exec.Command("unshare", "--mount", "--propagation", "private", "bash", "-c", overlayScript, "overlay", folder,
		installScript).CombinedOutput()
	if err != nil {
		t.Fatalf("dpkg in an overlay: %v\n%s", err, text)
	}
	facts := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		facts[name] = strings.TrimSpace(value)
	}
	for name, want := range map[string]string{
		"user": "legwork legwork", "folder": "750 root:legwork", "settings": "640 root:legwork",
		"conffiles": "/etc/legwork/runner.env /etc/legwork/server.env", "upgraded": "LEGWORK_SERVER__LISTEN=127.0.0.1:18440",
		"version": version, "units": "", "warnings": "", "groff": "", "page": "tls_cert (string)",
		"completion": "complete -o default -F __start_legwork legwork", "completed": "module",
		"removed": "runner.env server.env", "purged": "", "stays": "legwork",
	} {
		if got, ok := facts[name]; !ok || got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", text)
	}
}

// rpmSays checks the package for rpm with rpm itself.
func rpmSays(t *testing.T, file string) {
	t.Helper()
	list := strings.Fields(output(t, "rpm", "-qpl", "--nosignature", file))
	for _, path := range append(slices.Concat(installed, documents), "./usr/share/zsh/site-functions/_legwork") {
		if !slices.Contains(list, strings.TrimPrefix(path, ".")) {
			t.Errorf("files of the rpm: got no %s", path)
		}
	}
	config := strings.Join(strings.Fields(output(t, "rpm", "-qpc", "--nosignature", file)), " ")
	if want := "/etc/legwork/runner.env /etc/legwork/server.env"; config != want {
		t.Errorf("configuration files of the rpm: got %q, want %q", config, want)
	}
	about := output(t, "rpm", "-qp", "--nosignature", "--queryformat", "%{NAME} %{VERSION} %{ARCH}", file)
	if want := "legwork 1.4.0~rc.1 " + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]; about != want {
		t.Errorf("header of the rpm: got %q, want %q", about, want)
	}
	scripts := output(t, "rpm", "-qp", "--nosignature", "--scripts", file)
	for _, want := range []string{"groupadd --system legwork", "systemctl daemon-reload", "disable --now"} {
		if !strings.Contains(scripts, want) {
			t.Errorf("scripts of the rpm: got no %q", want)
		}
	}
}
