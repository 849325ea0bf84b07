package boot

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// A Runner that was started on a host is held by what its owner set, whatever its environment says of other things.
func TestHandedDown(t *testing.T) {
	dir := t.TempDir()
	base := []string{"LEGWORK_SERVER__URL=http://127.0.0.1:1", "LEGWORK_RUNNER__REGISTRATIONTOKEN=lwr_x", "HOME=" + dir,
		"LEGWORK_WORKINGDIRECTORY__WORKINGDIRECTORY=" + filepath.Join(dir, "work")}
	owner, err := LoadRunnerSettings(Layers{Environ: append(base, "Policy__AllowedEngines=opentofu", "Policy__NoInlineScripts=true", "Policy__AllowedReferences=env",
		"HooksPreapproval__Enabled=true", "HooksPreapproval__PreapprovedHooksDirectory="+dir, "Cancel__InterruptSeconds=7", "Engine__AdditionalBinaryPaths="+dir)})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "settings.json")
	if err := os.WriteFile(file, owner.handedDown(), 0o600); err != nil {
		t.Fatal(err)
	}
	task := launcher.Environment(&work.RunnerTask{Runner: "cloud", ServerURL: "http://127.0.0.1:2", Hosting: &catalog.Hosting{JobsPerInstance: 3, OneOff: true}}, work.Unit{Name: "cloud-1", Token: "token"})
	environ := []string{"HOME=" + dir, "LEGWORK_WORKINGDIRECTORY__WORKINGDIRECTORY=" + filepath.Join(dir, "hosted")}
	for name, value := range task {
		environ = append(environ, name+"="+value)
	}
	got, err := LoadRunnerSettings(Layers{File: file, Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Policy, owner.Policy) || !reflect.DeepEqual(got.HooksPreapproval, owner.HooksPreapproval) ||
		!reflect.DeepEqual(got.Engine, owner.Engine) || got.Cancel != owner.Cancel {
		t.Errorf("handed down %+v, want %+v", got, owner)
	}
	if r := got.Runner; r.Name != "cloud" || r.Instance != "cloud-1" || r.Capacity != 3 || !r.OneOff || r.Lifetime != string(catalog.Ephemeral) || r.RegistrationToken.Reveal() != "token" {
		t.Errorf("it is %+v", r)
	}
	if got.Runner.Launcher {
		t.Error("a Runner that was launched launches others")
	}
}

// Nobody's host starts processes without the owner's word.
func TestLauncherIsOptional(t *testing.T) {
	s := DefaultRunnerSettings()
	if engines(s, "legwork")[launcher.Name] != nil {
		t.Error("it is there by default")
	}
	s.Runner.Launcher = true
	if engines(s, "legwork")[launcher.Name] == nil {
		t.Error("it is not there when it is wanted")
	}
	for _, kind := range catalog.LauncherKinds {
		if !launchers.Supports(kind) {
			t.Errorf("there is no launcher %s", kind)
		}
	}
}

// What is passed on to hosted Runners is named in the settings, which are never among it themselves.
func TestLauncherEnvironment(t *testing.T) {
	base := []string{"LEGWORK_SERVER__URL=http://127.0.0.1:1", "LEGWORK_RUNNER__REGISTRATIONTOKEN=lwr_x", "HOME=" + t.TempDir()}
	s, err := LoadRunnerSettings(Layers{Environ: append(base, "LEGWORK_RUNNER__LAUNCHER_ENVIRONMENT=PULUMI_HOME,TF_*")})
	if err != nil || !reflect.DeepEqual(s.launcherHost("legwork").Environment, []string{"PULUMI_HOME", "TF_*"}) {
		t.Errorf("%+v, %v", s.Runner.LauncherEnvironment, err)
	}
	for _, bad := range []string{"A=1", "[", "LEGWORK_DATABASE", "Runner__Credentials__ClientSecret", `{"AWS_*":""}`, "AWS_*;TF_*", "AWS_* TF_*"} {
		if _, err := LoadRunnerSettings(Layers{Environ: append(base, "LEGWORK_RUNNER__LAUNCHER_ENVIRONMENT="+bad)}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
