package boot

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/launcher"
	"legwork/internal/release"
	"legwork/internal/runner"
	"legwork/internal/wire"
)

// RunnerSettings are the settings of a Runner process. Keys match in any case, with or without
// underscores. In the environment a level is a double underscore: LEGWORK_RUNNER__ID or Runner__Id.
type RunnerSettings struct {
	// Where the binaries of the engines are found.
	Engine EngineSettings `json:"Engine"`
	// An allowlist of Hook scripts by their content.
	HooksPreapproval HooksPreapprovalSettings `json:"HooksPreapproval"`
	// How the logs of Jobs are shipped to the Server.
	JobLogStream JobLogStreamSettings `json:"JobLogStream"`
	// The Runner's own log. The logs of Jobs do not appear there.
	Logging LoggingSettings `json:"Logging"`
	// Which Runner record this process is an Instance of, and how it logs in.
	Runner RunnerSection `json:"Runner"`
	// The Server that the Runner connects to.
	Server ServerSection `json:"Server"`
	// Where the Runner keeps sources, state and scratch files.
	WorkingDirectory WorkingDirectorySettings `json:"WorkingDirectory"`
	// How long a canceled engine gets to end by itself.
	Cancel CancelSettings `json:"Cancel"`
	// What a Server may have this Runner do. Off by default.
	Policy PolicySettings `json:"Policy"`
	// References to values that are kept elsewhere, such as ${file:/run/secrets/legwork}.
	ExternalSettings ExternalSettings `json:"ExternalSettings"`

	secretReference string // where the client secret came from, "" = it stood there itself
	registering     bool   // the identity is not needed: it is about to be had
	registered      bool   // the identity came from the token file

	environ        []string         // that the process began with, for a release that takes its place
	launcherLimits *launcher.Limits // what may be launched next to a Server; nil: anything
}

// EngineSettings say where the binaries of the engines are found.
type EngineSettings struct {
	// Folders that are searched for engines before those of PATH. A leading ~ is the home folder.
	AdditionalBinaryPaths []string `json:"AdditionalBinaryPaths" jsonschema:"maxItems=100"`
}

// HooksPreapprovalSettings let only known Hook scripts run.
type HooksPreapprovalSettings struct {
	// When true, a Hook runs only if its content equals that of a file in PreapprovedHooksDirectory.
	Enabled bool `json:"Enabled"`
	// Folder of the approved scripts. Their file names do not matter. A leading ~ is the home folder.
	PreapprovedHooksDirectory string `json:"PreapprovedHooksDirectory"`
	// Names or globs (AWS_*) of the environment Inputs that approved scripts get; any other fails the Step. Empty:
	// all but those with which shells, loaders and interpreters run other code. One of these must be named in full.
	AllowedVariables []string `json:"AllowedVariables" jsonschema:"maxItems=1000"`
}

// JobLogStreamSettings tune the shipping of the logs of Jobs.
type JobLogStreamSettings struct {
	// Most log records of one batch while nobody follows the Job. A batch leaves early when it is full.
	BatchSizeLimit int `json:"BatchSizeLimit" jsonschema:"minimum=1,maximum=10000"`
	// When true, the first record after a pause leaves at once.
	EagerlyEmitFirstEvent bool `json:"EagerlyEmitFirstEvent"`
	// Longest time in seconds between two batches while nobody follows the Job.
	PeriodSeconds int `json:"PeriodSeconds" jsonschema:"minimum=1,maximum=3600"`
}

// LoggingSettings are about the Runner's own log.
type LoggingSettings struct {
	// Least level that is logged, by category. Default is for every category that no other key is a
	// prefix of; a longer prefix goes before a shorter one. None is silence.
	LogLevel map[string]LogLevel `json:"LogLevel"`
	// How a line of the log is written.
	Format string `json:"Format" jsonschema:"enum=text,enum=json"`
}

// RunnerSection binds the process to a Runner record of the Server.
type RunnerSection struct {
	// Id of the Runner record. `legwork runner create` prints it.
	ID string `json:"Id" jsonschema:"format=uuid"`
	// Name of this process among the Instances of its Runner record. Default is the host's name.
	Instance string `json:"Instance" jsonschema:"maxLength=128"`
	// Id of the Organization that the Runner record is in.
	OrganizationID string `json:"OrganizationId" jsonschema:"format=uuid"`
	// What the Runner logs in with: a credential of the Service principal of its record.
	Credentials CredentialsSettings `json:"Credentials"`
	// When true, Server.Url may be plain http to another host. Whoever is on the way then reads secrets and sends commands.
	AllowPlainHTTP bool `json:"allow_plain_http"`
	// Most Jobs that this Instance works on at once.
	Capacity int `json:"Capacity" jsonschema:"minimum=1,maximum=1000"`
	// Address and port for /healthz and Prometheus /metrics. Without an address: loopback alone. Empty: no listener.
	Listen string `json:"Listen"`
	// How long Jobs may run on after the first signal. Then they are canceled gracefully, as by a second one. 0s: for ever.
	DrainTimeout catalog.Duration `json:"drain_timeout"`
	// Labels of this instance, at most 100. A module can ask for them. They add to the labels of the runner record and
	// never replace one. A registration token limits them.
	Labels map[string]string `json:"Labels"`

	// Name of the Runner record that registration makes or joins. Default is made of Instance.
	Name string `json:"Name" jsonschema:"maxLength=63"`
	// What the Runner registers itself with. Without it `legwork runner register` asks.
	RegistrationToken Secret `json:"RegistrationToken"`
	// File in which registration keeps what the Runner logs in with, for its user alone. Where a registration token is
	// set, the default is registration.json in the working directory. What the settings say themselves goes before it.
	TokenFile string `json:"token_file"`
	// What registration says of the Runner, for people.
	Description string `json:"Description" jsonschema:"maxLength=2000"`
	// Registers a Runner whose Instances are missed when they are gone, or of which they disappear.
	Lifetime string `json:"Lifetime" jsonschema:"enum=persistent,enum=ephemeral"`
	// Registers a Runner of several Instances, each with a credential of its own. Always so where Lifetime is ephemeral.
	AllowMultipleInstances bool `json:"AllowMultipleInstances"`
	// Registers a Runner with this many Jobs at once over all its Instances. 0: as each Instance says.
	MaxParallelJobs int `json:"MaxParallelJobs" jsonschema:"minimum=0,maximum=10000"`
	// Registers a Runner with a URL that is called when a Job waits and no Instance is online.
	Webhook string `json:"webhook"`
	// When true, the Runner takes one Job and ends with exit status 0 when that is over. Capacity counts as 1.
	OneOff bool `json:"one_off"`
	// When true, the Server may have this Runner start and stop other Runners: processes on its host, containers, tasks in a cloud, as
	// whoever this Runner is there. What these settings forbid is forbidden to processes on its host, too.
	Launcher bool `json:"launcher"`
	// Names of environment variables of this process, or globs of names, that Runners on its host which it starts get, too, and the
	// script of the launcher exec: besides PATH, HOME, USER, LOGNAME, LANG, LANGUAGE, LC_*, TZ, TMPDIR, proxies and SSL_CERT_*. Never
	// settings.
	LauncherEnvironment []string `json:"launcher_environment" jsonschema:"maxItems=100"`

	// What a Server may do to this program when there is a newer release. notify: it is said in the log; patch, minor: the
	// Server may replace it, where the last number alone changes, or any but the first; off: nothing.
	Updates string `json:"updates" jsonschema:"enum=off,enum=notify,enum=patch,enum=minor"`
	// Public keys of minisign that may sign releases, besides those that are built in: the line that begins with RW.
	ReleaseKeys []string `json:"release_keys" jsonschema:"maxItems=50"`
	// How long a new program may take to come online before the old one goes on.
	UpdateTimeout catalog.Duration `json:"update_timeout"`
}

// CredentialsSettings are one credential of a Service principal.
type CredentialsSettings struct {
	// The bare client id. The Runner itself puts the Organization's id before it.
	ClientID string `json:"ClientId" jsonschema:"maxLength=200"`
	// The client secret. It is shown once, when the Runner record or the credential is made.
	ClientSecret Secret `json:"ClientSecret"`
}

// ServerSection says where the Server is.
type ServerSection struct {
	// Base URL of the Server, with scheme and, where it is not the usual one, port.
	URL string `json:"Url"`
	// PEM file of certificate authorities to trust besides those of the host.
	CAFile string `json:"CaFile"`
}

// WorkingDirectorySettings are the Runner's places on the disk.
type WorkingDirectorySettings struct {
	// Folder for sources, engine state, logs that are not shipped yet, and what is needed to resume
	// after a crash. A leading ~ is the home folder.
	WorkingDirectory string `json:"WorkingDirectory"`
	// Folder for the scratch files of Jobs. Default is .temp in WorkingDirectory.
	TempDirectory string `json:"TempDirectory"`
	// Folder for files that `fetch` steps of runbooks bring from nodes. Default is fetched in WorkingDirectory.
	FetchDirectory string `json:"FetchDirectory"`
	// Days after which sources of Modules and git mirrors that no Job has used are removed. 0: never.
	MaxAgeDays int `json:"MaxAgeDays" jsonschema:"minimum=0,maximum=3650"`
	// Most MiB that sources of Modules and git mirrors may take together; those unused for longest are removed first,
	// none that was used within an hour. 0: any.
	MaxSizeMiB int `json:"MaxSizeMiB" jsonschema:"minimum=0,maximum=1073741824"`
	// Free space in MiB that the disks of these folders need before this runner takes a job or begins a step. With less, the runner
	// page and `legwork runner show` name the reason, and jobs wait before their next step until there is enough. The output of
	// commands leaves a quarter of this space to the engines, for their state. 0: no limit.
	MinFreeMiB int `json:"MinFreeMiB" jsonschema:"minimum=0,maximum=1073741824"`
	// When true, folders of Modules are removed also when they hold local state or other files that no fetch brings back.
	PruneLocalState bool `json:"PruneLocalState"`
}

// CancelSettings are the grace times of a canceled Step, after its engine got SIGINT.
type CancelSettings struct {
	// Seconds between SIGINT and SIGTERM.
	InterruptSeconds int `json:"InterruptSeconds" jsonschema:"minimum=0,maximum=86400"`
	// Seconds between SIGTERM and SIGKILL.
	TerminateSeconds int `json:"TerminateSeconds" jsonschema:"minimum=0,maximum=86400"`
}

// LogLevel is the least level of what a category logs.
type LogLevel string

// slogLevels are the log levels, lowest first, as slog knows them.
var slogLevels = []struct {
	name  LogLevel
	level slog.Level
}{
	{"Trace", slog.LevelDebug - 4},
	{"Debug", slog.LevelDebug},
	{"Information", slog.LevelInfo},
	{"Warning", slog.LevelWarn},
	{"Error", slog.LevelError},
	{"Critical", slog.LevelError + 4},
	{"None", slog.LevelError + 1000},
}

// Slog gives the level as slog knows it; what is not a level counts as Information.
func (l LogLevel) Slog() slog.Level {
	for _, known := range slogLevels {
		if known.name == l {
			return known.level
		}
	}
	return slog.LevelInfo
}

// Level gives the least level to log for a category such as "Legwork.Session": that of the
// longest key which is the category or a dotted prefix of it, else that of Default.
func (l LoggingSettings) Level(category string) slog.Level {
	found, length := LogLevel("Information"), -1
	for key, level := range l.LogLevel {
		switch {
		case strings.EqualFold(key, "Default") && length < 0:
			found, length = level, 0
		case len(key) > length && prefixOf(key, category):
			found, length = level, len(key)
		}
	}
	return found.Slog()
}

func prefixOf(key, category string) bool {
	if len(key) > len(category) || !strings.EqualFold(key, category[:len(key)]) {
		return false
	}
	return len(key) == len(category) || category[len(key)] == '.'
}

// DefaultRunnerSettings are the settings where nothing is set. Runner.Instance and
// WorkingDirectory.TempDirectory are still empty: they depend on other things.
func DefaultRunnerSettings() RunnerSettings {
	return RunnerSettings{
		JobLogStream: JobLogStreamSettings{BatchSizeLimit: 50, EagerlyEmitFirstEvent: true, PeriodSeconds: 5},
		Logging:      LoggingSettings{LogLevel: map[string]LogLevel{"Default": "Information"}, Format: "text"},
		Runner: RunnerSection{Capacity: 10, Lifetime: string(catalog.Persistent),
			Updates: string(release.Notify), UpdateTimeout: catalog.Duration(runner.DefaultUpdateTimeout)},
		WorkingDirectory: WorkingDirectorySettings{WorkingDirectory: runner.DefaultFolder, MaxAgeDays: 30, MinFreeMiB: 256},
		Cancel:           CancelSettings{InterruptSeconds: 30, TerminateSeconds: 10},
		Policy:           PolicySettings{AllowedReferences: slices.Clone(defaultReferences), ReferenceFolders: slices.Clone(defaultReferenceFolders)},
		ExternalSettings: ExternalSettings{RefreshSeconds: 300},
	}
}

// otherNames are keys that files of another tradition use, each with the key it stands for.
func (RunnerSettings) otherNames() map[string]string {
	return map[string]string{
		"tmp_path":                  "WorkingDirectory.TempDirectory",
		"web_host":                  "Server.Url",
		"Runner.max_parallel_tasks": "Runner.Capacity",
	}
}

func (s *RunnerSettings) finish(h *host, problem report) {
	if s.Runner.Instance == "" {
		s.Runner.Instance = h.name
	}
	s.checkPlaces(h, problem)
	if !s.takeIdentity(h, problem) && !s.registering && !s.canRegister() {
		s.checkCredentials(problem)
	}
	s.checkIdentity(problem)
	s.checkServer(h, problem)
	s.checkPolicy(problem)
	s.checkListen(problem)
	s.checkUpdates(problem)
}

func (s *RunnerSettings) checkIdentity(problem report) {
	if s.Runner.Instance == "" {
		problem("Runner.Instance", "is missing: the host has no name that it could default to")
	}
	if strings.Contains(s.Runner.Credentials.ClientID, ":") {
		problem("Runner.Credentials.ClientId", "must be the bare client id, without the Organization's id and the colon before it")
	}
	if wrong := secretProblem(s.Runner.Credentials.ClientSecret.Reveal()); wrong != "" {
		problem("Runner.Credentials.ClientSecret", "%s", wrong)
	}
	if strings.ContainsFunc(s.Runner.Instance, func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' || r == '\\' }) {
		problem("Runner.Instance", "must hold no slash and no control character")
	}
	checkEnvironment("Runner.launcher_environment", s.Runner.LauncherEnvironment, problem)
	if len(s.Runner.Labels) > 100 {
		problem("Runner.Labels", "must have at most 100 entries, not %d", len(s.Runner.Labels))
	}
	if d := time.Duration(s.Runner.DrainTimeout); d < 0 || d > 30*24*time.Hour {
		problem("Runner.drain_timeout", "must be between 0s, which is for ever, and 720h, not %s", d)
	}
}

// checkCredentials names what of the identity is missing.
func (s *RunnerSettings) checkCredentials(problem report) {
	missing := func(empty bool, key, what string) {
		if empty {
			problem(key, "is missing: %s", what)
		}
	}
	printed := "`legwork runner create` prints it"
	missing(s.Runner.ID == "", "Runner.Id", "the id of the Runner record, "+printed)
	missing(s.Runner.OrganizationID == "", "Runner.OrganizationId", "the id of the Runner's Organization, "+printed)
	missing(s.Runner.Credentials.ClientID == "", "Runner.Credentials.ClientId", "the client id, "+printed)
	missing(s.Runner.Credentials.ClientSecret.Empty(), "Runner.Credentials.ClientSecret",
		"the client secret, shown once when the Runner record was made")
}

func (s *RunnerSettings) checkServer(h *host, problem report) {
	if s.Server.URL == "" {
		problem("Server.Url", "is missing: the base URL of the Server, for example https://legwork.example.com")
	} else if checkURL(s.Server.URL, "Server.Url", problem) {
		s.Server.URL = strings.TrimRight(s.Server.URL, "/")
	}
	if wire.ExposesPlainHTTP(s.Server.URL) && !s.Runner.AllowPlainHTTP {
		problem("Server.Url", "is plain http to another host, where secrets and commands can be read and changed on the way: "+
			"use https, or set Runner.allow_plain_http to true")
	}
	h.path(&s.Server.CAFile, "Server.CaFile", problem)
	if s.Server.CAFile == "" {
		return
	}
	pem, err := os.ReadFile(s.Server.CAFile)
	switch {
	case err != nil:
		problem("Server.CaFile", "cannot be read: %s", reason(err))
	case !x509.NewCertPool().AppendCertsFromPEM(pem):
		problem("Server.CaFile", "holds no certificate in PEM form")
	}
}

func (s *RunnerSettings) checkPlaces(h *host, problem report) {
	places := &s.WorkingDirectory
	if places.WorkingDirectory == "" {
		problem("WorkingDirectory.WorkingDirectory", "must not be empty")
	}
	h.path(&places.TempDirectory, "WorkingDirectory.TempDirectory", problem)
	h.path(&places.FetchDirectory, "WorkingDirectory.FetchDirectory", problem)
	h.path(&places.WorkingDirectory, "WorkingDirectory.WorkingDirectory", problem)
	if places.TempDirectory == "" {
		places.TempDirectory = filepath.Join(places.WorkingDirectory, ".temp")
	}
	for i := range s.Engine.AdditionalBinaryPaths {
		h.path(&s.Engine.AdditionalBinaryPaths[i], "Engine.AdditionalBinaryPaths", problem)
	}
	hooks := &s.HooksPreapproval
	h.path(&hooks.PreapprovedHooksDirectory, "HooksPreapproval.PreapprovedHooksDirectory", problem)
	switch {
	case !hooks.Enabled:
	case hooks.PreapprovedHooksDirectory == "":
		problem("HooksPreapproval.PreapprovedHooksDirectory", "is missing: HooksPreapproval.Enabled needs the folder of the approved scripts")
	default:
		existing(hooks.PreapprovedHooksDirectory, true, "HooksPreapproval.PreapprovedHooksDirectory", problem)
	}
}

// checkURL reports what is no base URL of a web server, and tells whether it is one.
func checkURL(text, key string, problem report) bool {
	u, err := url.Parse(text)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		problem(key, "must be a URL such as https://legwork.example.com:8440")
	case u.User != nil:
		problem(key, "must hold no user name and no password")
	case u.RawQuery != "" || u.Fragment != "":
		problem(key, "must end with its path: no ? and no #")
	default:
		return true
	}
	return false
}

// reason is why a file cannot be read, without repeating its path.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}
