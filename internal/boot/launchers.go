package boot

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/launcher"
	"legwork/internal/launcher/docker"
	"legwork/internal/launcher/ecs"
	"legwork/internal/launcher/kubernetes"
	"legwork/internal/launcher/process"
	"legwork/internal/launcher/script"
	"legwork/internal/release"
)

// launchers are those of this program.
var launchers = launcher.Kinds{
	catalog.LaunchProcess:    process.New,
	catalog.LaunchDocker:     docker.New,
	catalog.LaunchKubernetes: kubernetes.New,
	catalog.LaunchECS:        ecs.New,
	catalog.LaunchExec:       script.New,
}

// launcherHost is what launchers know of the host of a Runner.
func (s *RunnerSettings) launcherHost(self string) launcher.Host {
	return launcher.Host{
		Dir: filepath.Join(s.WorkingDirectory.WorkingDirectory, "hosted"), Program: self, Version: Version(), CAFile: s.Server.CAFile,
		Keys: s.Runner.ReleaseKeys, OwnOnly: s.Runner.Updates == string(release.Off), Settings: s.handedDown(),
		Environment: s.Runner.LauncherEnvironment, TempDir: os.Getenv("TMPDIR"), Limits: s.launcherLimits,
	}
}

// handedDown gives the settings that a Runner started on this host has to have, too, as a settings file: where engines are, how they are
// canceled, and all that limits what a Server can do.
func (s *RunnerSettings) handedDown() json.RawMessage {
	text, err := json.Marshal(struct {
		Engine           EngineSettings
		HooksPreapproval HooksPreapprovalSettings
		JobLogStream     JobLogStreamSettings
		Logging          LoggingSettings
		Cancel           CancelSettings
		Policy           PolicySettings
	}{s.Engine, s.HooksPreapproval, s.JobLogStream, s.Logging, s.Cancel, s.Policy})
	if err != nil {
		panic(err) // plain structs of texts, numbers and lists
	}
	return text
}

// checkEnvironment names what cannot be names of variables.
func checkEnvironment(key string, names []string, problem report) {
	for _, name := range names {
		switch _, err := filepath.Match(name, ""); {
		case err != nil || name == "" || strings.ContainsAny(name, "=/:;,$\"'{} \t"):
			problem(key, "holds %s, which is no name and no glob of names", quoted(name))
		case launcher.IsSetting(name):
			problem(key, "holds %s: settings are never passed on", quoted(name))
		}
	}
}
