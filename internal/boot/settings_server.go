package boot

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/release"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// ServerSettings are the settings of a Server process. In the environment each is
// LEGWORK_SERVER__ and its key: LEGWORK_SERVER__LISTEN.
type ServerSettings struct {
	// Folder for the database, the keys, the admin token and, without blob_url, the bytes.
	Data string `json:"data"`
	// File of the master key that everything sealed hangs on, which only the Server's user may read. Made at the first start.
	// Empty: master-key in data.
	MasterKeyFile string `json:"master_key_file"`
	// When true, the group of the data folder and of the master key may have access to them, as on a Kubernetes volume
	// with fsGroup. Access by other users is refused in any case.
	AllowGroupAccess bool `json:"allow_group_access"`
	// Address and port that are listened on. Without an address: all. Port 0: any free one.
	Listen string `json:"listen"`
	// When true, listen may be an address of the network without TLS. Not needed where public_url is https: a proxy ends TLS then.
	AllowPlainHTTP bool `json:"allow_plain_http"`
	// Base URL under which people and Runners reach this Server. Default is made from listen.
	PublicURL string `json:"public_url"`
	// PEM file of the certificate and its chain. Read again when it changes. Empty: no TLS.
	TLSCert string `json:"tls_cert"`
	// PEM file of the certificate's private key.
	TLSKey string `json:"tls_key"`
	// Addresses and networks of the proxies whose X-Forwarded headers are believed.
	TrustedProxies []string `json:"trusted_proxies" jsonschema:"maxItems=1000"`

	// URL of a PostgreSQL database: postgres://user:password@host/name. Empty: SQLite in data.
	Database Secret `json:"database"`
	// Folder, or file:// URL, for log archives and plans. Several Servers share one. Empty: in data.
	BlobURL Secret `json:"blob_url"`
	// URLs of a NATS cluster that several Servers share, separated by commas. Empty: inside the process.
	NATSURL Secret `json:"nats_url"`

	// Least level of the Server's own log.
	LogLevel string `json:"log_level" jsonschema:"enum=debug,enum=info,enum=warn,enum=error"`
	// How a line of the log is written.
	LogFormat string `json:"log_format" jsonschema:"enum=text,enum=json"`

	// How long a Binding holds without a sign of life of its Instance.
	Lease catalog.Duration `json:"lease"`
	// How often an Instance gives a sign of life. At most a third of lease.
	Heartbeat catalog.Duration `json:"heartbeat"`
	// How long an Instance that was lost during a changing Step may come back. 0s: not at all.
	RecoveryWindow catalog.Duration `json:"recovery_window"`
	// How long a Step may print nothing. 0s: for ever.
	StallTimeout catalog.Duration `json:"stall_timeout"`
	// How often a Job is bound before it fails for good.
	MaxAttempts int `json:"max_attempts" jsonschema:"minimum=1,maximum=100"`

	// Largest log of one step in bytes. What is beyond is left out, which the log says; the job goes on. 0: no limit.
	LogMaxStepBytes int64 `json:"log_max_step_bytes" jsonschema:"minimum=0"`
	// Largest log of one job with all its steps in bytes. 0: no limit.
	LogMaxJobBytes int64 `json:"log_max_job_bytes" jsonschema:"minimum=0"`
	// Most bytes of logs that are taken of one Runner Instance in a second. A faster one waits. 0: no limit.
	LogMaxBytesPerSecond int `json:"log_max_bytes_per_second" jsonschema:"minimum=0"`

	// How long Jobs are kept after their end, with their logs and plans. The newest of each Module stay. 0s: for ever.
	JobsKept catalog.Duration `json:"jobs_kept"`
	// How long the audit is kept: who did what.
	AuditKept catalog.Duration `json:"audit_kept"`

	// How long Instances of Runners with lifetime ephemeral are shown after they were last seen.
	EphemeralInstancesKept catalog.Duration `json:"ephemeral_instances_kept"`

	// Most Runner Instances that are connected to this Server at once. Others are told to try again.
	MaxSessions int `json:"max_sessions" jsonschema:"minimum=1,maximum=1000000"`
	// Maximum number of connections to this Server at once, Sessions of Runners among them. The limit of open files lowers it: a
	// part of the files is reserved for the Server itself.
	MaxConnections int `json:"max_connections" jsonschema:"minimum=1,maximum=1000000"`
	// Maximum number of connections from one address at once; from one /64 network for IPv6. Loopback and trusted_proxies are exempt.
	MaxConnectionsPerAddress int `json:"max_connections_per_address" jsonschema:"minimum=1,maximum=1000000"`
	// Largest body of a request, in bytes.
	MaxBodyBytes int64 `json:"max_body_bytes" jsonschema:"minimum=65536,maximum=1073741824"`
	// How long the token holds that a Runner or a program gets at /connect/token.
	TokenLifetime catalog.Duration `json:"token_lifetime"`
	// When true, /metrics needs no token. Otherwise it needs one of any role that may read.
	MetricsPublic bool `json:"metrics_public"`
	// How long a stopping Server waits for requests and Sessions to end.
	DrainTimeout catalog.Duration `json:"drain_timeout"`

	// How long a Job waits without an Instance online until its Runner's webhook is called.
	WebhookWait catalog.Duration `json:"webhook_wait"`
	// How long a demand stands after a call until the webhook is called again; then twice that and so on, at most 10m.
	WebhookRepeat catalog.Duration `json:"webhook_repeat"`
	// When true, webhooks and values_from do not reach loopback and private networks. Link-local addresses are never reached.
	WebhookDenyPrivate bool `json:"webhook_deny_private"`

	// Public keys of minisign that are trusted to sign releases of this program, besides those that are built in: the lines that begin
	// with RW.
	ReleaseKeys []string `json:"release_keys" jsonschema:"maxItems=50"`
	// Names of environment variables of the Server, or globs of names, that hosted Runners on its host get, too: as
	// Runner.launcher_environment of a Runner that launches.
	LauncherEnvironment []string `json:"launcher_environment" jsonschema:"maxItems=100"`

	// What the Server's own Runner may launch on demand: process, docker, kubernetes, ecs, exec. Empty: nothing; Runners on other hosts launch.
	// What it launches runs on the Server's host, or with the Server's rights in a cloud.
	Launchers []catalog.LauncherKind `json:"launchers" jsonschema:"maxItems=5,enum=process,enum=docker,enum=kubernetes,enum=ecs,enum=exec"`
	// Folder with the scripts of launcher exec, which a Runner names as hosting.exec.file. The Server's own Runner runs no other scripts.
	LauncherScripts string `json:"launcher_scripts"`
	// How Jobs on the Server's host are kept from the Server's data: "landlock", or "none", with which everybody who may change a Module or a
	// Runbook that runs there can become an owner. Holds for local_runner and for launcher process.
	Isolation string `json:"isolation" jsonschema:"enum=landlock,enum=none"`
	// Folders that isolated Jobs may change, in addition to their own and those for temporary files.
	IsolationWritable []string `json:"isolation_writable" jsonschema:"maxItems=100"`

	// A shared secret of at least 16 characters with which any number of Runners may register themselves. Tokens of `legwork
	// runner token create` are safer: they expire. Empty: none.
	RunnerRegistrationToken Secret `json:"runner_registration_token"`
	// When true, the Server has a Runner of its own inside its process, the record "local". It is assigned to nothing until an
	// owner assigns it: what it runs, runs on the Server's host as the Server's user.
	LocalRunner bool `json:"local_runner"`
	// Kept name, the opposite of local_runner: false turns that on.
	UseRemoteRunner bool `json:"use_remote_runner"`
	// What happens to Nodes of a Runbook that no Runner's Node filter covers: "refuse" the Job, or "local": the Local Runner has them.
	UncoveredNodes string `json:"uncovered_nodes" jsonschema:"enum=refuse,enum=local"`

	file string // the settings were read from, if any
}

// DefaultServerSettings are the settings where nothing is set.
func DefaultServerSettings() ServerSettings {
	return ServerSettings{
		Data:                     "./data",
		Listen:                   "127.0.0.1:8440",
		LogLevel:                 "info",
		LogFormat:                "text",
		Lease:                    catalog.Duration(work.DefaultLease),
		Heartbeat:                catalog.Duration(work.HeartbeatPeriod),
		RecoveryWindow:           catalog.Duration(work.DefaultRecoveryWindow),
		StallTimeout:             catalog.Duration(work.DefaultStallTimeout),
		MaxAttempts:              work.DefaultMaxAttempts,
		JobsKept:                 catalog.Duration(control.DefaultJobsKept),
		LogMaxStepBytes:          256 << 20,
		LogMaxJobBytes:           1 << 30,
		LogMaxBytesPerSecond:     32 << 20,
		MaxConnections:           25_000,
		MaxConnectionsPerAddress: 1_000,
		AuditKept:                catalog.Duration(control.DefaultAuditKept),
		MaxSessions:              20_000,
		EphemeralInstancesKept:   catalog.Duration(control.DefaultEphemeralKept),
		MaxBodyBytes:             16 << 20,
		TokenLifetime:            catalog.Duration(15 * time.Minute),
		DrainTimeout:             catalog.Duration(30 * time.Second),
		WebhookWait:              catalog.Duration(control.DefaultWebhookWait),
		WebhookRepeat:            catalog.Duration(control.DefaultWebhookRepeat),
		WebhookDenyPrivate:       true,
		UseRemoteRunner:          true,
		Isolation:                isolationLandlock,
		UncoveredNodes:           "refuse",
	}
}

// Level gives the least level of the Server's own log.
func (s ServerSettings) Level() slog.Level {
	var level slog.Level
	if level.UnmarshalText([]byte(s.LogLevel)) != nil {
		return slog.LevelInfo
	}
	return level
}

// Proxies gives the trusted proxies as networks. They were checked when the settings were loaded.
func (s ServerSettings) Proxies() []netip.Prefix {
	var networks []netip.Prefix
	for _, text := range s.TrustedProxies {
		if network, err := parseNetwork(text); err == nil {
			networks = append(networks, network)
		}
	}
	return networks
}

// parseNetwork reads "10.0.0.0/8" or a single address.
func parseNetwork(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		network, err := netip.ParsePrefix(text)
		return network.Masked(), err
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(address, address.BitLen()), nil
}

func (s *ServerSettings) finish(h *host, problem report) {
	s.checkPlaces(h, problem)
	s.checkNetwork(problem)
	s.checkTLS(h, problem)
	s.checkTimes(problem)
}

func (s *ServerSettings) checkPlaces(h *host, problem report) {
	if s.Data == "" {
		problem("data", "must not be empty: it is the folder of the Server's data")
	}
	h.path(&s.Data, "data", problem)
	h.path(&s.MasterKeyFile, "master_key_file", problem)
	s.LocalRunner = s.LocalRunner || !s.UseRemoteRunner
	if s.UncoveredNodes == uncoveredLocal && !s.LocalRunner {
		problem("uncovered_nodes", "wants local_runner: true")
	}
	oneOfSchemes(s.Database, "database", problem, "postgres", "postgresql")
	for _, one := range strings.Split(s.NATSURL.Reveal(), ",") {
		oneOfSchemes(NewSecret(strings.TrimSpace(one)), "nats_url", problem, "nats", "tls")
	}
	s.checkBlobs(h, problem)
	if _, err := release.Trusted(s.ReleaseKeys); err != nil {
		problem("release_keys", "cannot be used: %s", err)
	}
	checkEnvironment("launcher_environment", s.LauncherEnvironment, problem)
	s.checkIsolation(h, problem)
	if n := len(s.RunnerRegistrationToken.Reveal()); n > 0 && (n < minRegistrationToken || n > maxRegistrationToken) {
		problem("runner_registration_token", "must have %d to %d characters: whoever guesses it has a Runner", minRegistrationToken, maxRegistrationToken)
	}
}

// uncoveredLocal is the value of uncovered_nodes that gives them to the Local Runner.
const uncoveredLocal = "local"

// The length of runner_registration_token.
const (
	minRegistrationToken = 16
	maxRegistrationToken = 512
)

// checkBlobs takes a folder or a file:// URL.
func (s *ServerSettings) checkBlobs(h *host, problem report) {
	where := s.BlobURL.Reveal()
	scheme, _, isURL := strings.Cut(where, "://")
	switch u, err := url.Parse(where); {
	case !isURL:
		h.path(&where, "blob_url", problem)
		s.BlobURL = NewSecret(where)
	case scheme == "s3" || scheme == "gs" || scheme == "azblob":
		problem("blob_url", "names an object store, which is not supported yet: give a folder, shared between Servers where there are several")
	case err != nil || scheme != "file" || u.Host != "" || !strings.HasPrefix(u.Path, "/"):
		problem("blob_url", "must be a folder or a URL such as file:///srv/legwork")
	}
}

// oneOfSchemes reports a URL of another scheme, without printing it: it may hold a password.
func oneOfSchemes(secret Secret, key string, problem report, schemes ...string) {
	if secret.Empty() {
		return
	}
	u, err := url.Parse(secret.Reveal())
	if err != nil || !slices.Contains(schemes, u.Scheme) {
		problem(key, "must be empty or a URL that begins with %s://", strings.Join(schemes, ":// or "))
	}
}

func (s *ServerSettings) checkNetwork(problem report) {
	host, port, err := net.SplitHostPort(s.Listen)
	if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil {
		problem("listen", "must be an address and a port such as 127.0.0.1:8440 or :8440")
	} else if s.TLSCert == "" && !s.AllowPlainHTTP && !wire.LoopbackHost(host) && !strings.HasPrefix(s.PublicURL, "https://") {
		problem("listen", "is an address of the network, and there is no TLS: passwords, tokens and secrets can be read on the way. "+
			"Set tls_cert and tls_key, or public_url to the https address of a proxy, or allow_plain_http to true")
	}
	if s.PublicURL != "" && checkURL(s.PublicURL, "public_url", problem) {
		s.PublicURL = strings.TrimRight(s.PublicURL, "/")
	}
	for _, text := range s.TrustedProxies {
		if _, err := parseNetwork(text); err != nil {
			problem("trusted_proxies", "holds %q, which is neither an address such as 10.0.0.7 nor a network such as 10.0.0.0/8", text)
		}
	}
}

func (s *ServerSettings) checkTLS(h *host, problem report) {
	h.path(&s.TLSCert, "tls_cert", problem)
	h.path(&s.TLSKey, "tls_key", problem)
	switch {
	case s.TLSCert == "" && s.TLSKey == "":
	case s.TLSKey == "":
		problem("tls_key", "is missing: tls_cert needs the file of its private key")
	case s.TLSCert == "":
		problem("tls_cert", "is missing: tls_key needs the file of its certificate")
	default:
		if _, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey); err != nil {
			problem("tls_cert", "cannot be used with tls_key: %s", err)
		}
	}
}

func (s *ServerSettings) checkTimes(problem report) {
	for _, bound := range []struct {
		key      string
		value    catalog.Duration
		min, max time.Duration
	}{
		{"lease", s.Lease, time.Second, time.Hour},
		{"heartbeat", s.Heartbeat, 100 * time.Millisecond, time.Hour},
		{"recovery_window", s.RecoveryWindow, 0, 7 * 24 * time.Hour},
		{"stall_timeout", s.StallTimeout, 0, 7 * 24 * time.Hour},
		{"jobs_kept", s.JobsKept, 0, 100 * 365 * 24 * time.Hour},
		{"ephemeral_instances_kept", s.EphemeralInstancesKept, time.Second, 365 * 24 * time.Hour},
		{"audit_kept", s.AuditKept, 24 * time.Hour, 100 * 365 * 24 * time.Hour},
		{"token_lifetime", s.TokenLifetime, time.Minute, 24 * time.Hour},
		{"drain_timeout", s.DrainTimeout, 0, time.Hour},
		{"webhook_wait", s.WebhookWait, 100 * time.Millisecond, time.Hour},
		{"webhook_repeat", s.WebhookRepeat, time.Second, 10 * time.Minute},
	} {
		if v := time.Duration(bound.value); v < bound.min || v > bound.max {
			problem(bound.key, "must be between %s and %s, not %s", bound.min, bound.max, v)
		}
	}
	if s.Heartbeat > s.Lease/3 {
		problem("heartbeat", "must be at most a third of lease, so that two may be lost: lease is %s", time.Duration(s.Lease))
	}
}
