package install

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestInstall(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		prepare func(m *machine)
		env     []string
		version string
	}{
		{name: "latest, packed",
			prepare: func(m *machine) { m.remove("mirror/latest/download/a4s-linux-amd64") }, version: "v1"},
		{name: "latest, without zstd", prepare: func(m *machine) { m.remove("tools/zstd") }, version: "v1"},
		{name: "a version", prepare: func(m *machine) { m.release("download/v0.9", "v0.9") },
			env: []string{"INSTALL_A4S_VERSION=v0.9"}, version: "v0.9"},
		{name: "a directory, without curl", prepare: func(m *machine) { m.remove("tools/curl") },
			env: []string{"INSTALL_A4S_ARTIFACT_PATH=mirror/latest/download"}, version: "v1"},
		{name: "arm64", prepare: func(m *machine) {
			m.tool("uname", "#!/bin/sh\ncase $1 in -m) echo aarch64 ;; *) echo Linux ;; esac\n")
			m.releaseFor("arm64", "latest/download", "v1-arm64")
		}, version: "v1-arm64"},
		{name: "file URL", env: []string{"INSTALL_A4S_DOWNLOAD_URL=file://mirror"}, version: "v1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t)
			if tc.prepare != nil {
				tc.prepare(m)
			}
			for i, e := range tc.env {
				tc.env[i] = strings.Replace(e, "mirror", m.path("mirror"), 1)
			}
			m.install(tc.env)
			if v := m.version(); v != tc.version {
				t.Errorf("installed %q, want %q", v, tc.version)
			}
			want := []string{"systemctl is-system-running", "systemctl daemon-reload", "systemctl enable a4s",
				"systemctl restart a4s"}
			if calls := m.calls(); !slices.Equal(calls, want) {
				t.Errorf("called %q, want %q", calls, want)
			}
			if strings.Contains(m.files(), ".new.") {
				t.Errorf("temporary files are left:\n%s", m.files())
			}
		})
	}
}

// The page of installing tells users without the script what to write.
func TestUnitIsThatOfThePage(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	page, err := os.ReadFile("../../docs/install/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```ini\n")
	want, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/install/install.md shows no unit")
	}
	m.install(nil)
	got := strings.NewReplacer(m.path("root/bin"), "/usr/local/bin", m.path("root/systemd"), "/etc/systemd/system").
		Replace(m.read("root/systemd/a4s.service"))
	if got != want {
		t.Errorf("installed:\n%s\nin docs/install/install.md:\n%s", got, want)
	}
}

func TestArgumentsAndEnvironment(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	token := "s3 \"c'r$e`t\\"
	m.install([]string{`INSTALL_A4S_EXEC=server --node-label 'a=b $HOME 100%' --token=other`, "https_proxy=http://p:1",
		"A4S_TENANT=t", "UNRELATED=1"},
		"--disable-agent", "--token", token)
	if got, want := m.execStart(), `server --node-label "a=b $$HOME 100%%" --disable-agent`; got != want {
		t.Errorf("ExecStart has %s, want %s", got, want)
	}
	want := "A4S_DATA_DIR=\"" + m.path("root/data") +
		"\"\nA4S_TOKEN=\"s3 \\\"c'r\\$e\\`t\\\\\"\nhttps_proxy=\"http://p:1\"\n"
	if got := m.read("root/systemd/a4s.service.env"); got != want {
		t.Errorf("environment file:\n%swant:\n%s", got, want)
	}
	for _, f := range []string{"root/systemd/a4s.service.env", "root/etc/install/a4s"} {
		info, err := os.Stat(m.path(f))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want mode 0600", f, info.Mode(), err)
		}
	}
}

func TestAgent(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.install([]string{"A4S_URL=https://192.0.2.10:6443", "A4S_TOKEN=K10x"}, "--node-label", "x=y")
	if got, want := m.line("root/systemd/a4s-agent.service", "ExecStart="),
		m.path("root/bin/a4s")+" agent --node-label x=y"; got != want {
		t.Errorf("ExecStart=%s, want %s", got, want)
	}
	m.env = slices.Concat(m.env, []string{"INSTALL_A4S_FORCE_RESTART=true"})
	m.calls()
	m.install(nil)
	if got := m.line("root/systemd/a4s-agent.service", "ExecStart="); !strings.HasSuffix(got,
		" agent --node-label x=y") {
		t.Errorf("after a run without options ExecStart=%s", got)
	}
	if !m.restarted() {
		t.Error("not restarted though it was told to")
	}
}

func TestRunAgainKeepsOptions(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.install([]string{"A4S_TOKEN=first", "A4S_NODE_NAME=n", "INSTALL_A4S_TYPE=exec", "INSTALL_A4S_SYMLINK=skip"},
		"server", "--node-label", "a=b c", "--disable-agent")
	m.write("root/systemd/a4s.service.env", m.read("root/systemd/a4s.service.env")+"# by hand\nGOGC=50\n", 0o600)
	m.calls()
	before := m.files()
	if err := os.Chmod(m.path("root/systemd/a4s.service.env"), 0o644); err != nil {
		t.Fatal(err)
	}
	m.write("root/bin/.a4s.new.0", "of a run that was killed", 0o644)
	// All that a second run is told is where it left its notes.
	kept := []string{m.env[0], m.env[1], m.env[2], "INSTALL_A4S_CONFIG_DIR=" + m.path("root/etc")}
	m.env = kept
	m.install(nil)
	if after := m.files(); after != before {
		t.Errorf("a run without options changed files:\n%s\nbefore:\n%s", after, before)
	}
	if m.restarted() {
		t.Error("restarted though nothing changed")
	}

	for _, tc := range []struct {
		name, args, token string
		env, arguments    []string
		restart           bool
	}{
		{name: "a variable replaces its own", env: []string{"A4S_TOKEN=second"},
			args: `server --node-label "a=b c" --disable-agent`, token: `"second"`, restart: true},
		{name: "arguments replace arguments", arguments: []string{"--debug"}, args: "server --debug",
			token: `"second"`, restart: true},
		{name: "a stopped service starts", env: []string{"STOPPED=1"}, args: "server --debug",
			token: `"second"`, restart: true},
		{name: "only the command drops arguments", arguments: []string{"server"}, args: "server",
			token: `"second"`, restart: true},
		{name: "an empty variable removes its own", env: []string{"A4S_TOKEN="}, args: "server", restart: true},
		{name: "an update keeps all", args: "server"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m.t = t
			if slices.Contains(tc.env, "STOPPED=1") {
				m.remove("notes/active")
			}
			m.calls()
			m.install(tc.env, tc.arguments...)
			env := "root/systemd/a4s.service.env"
			if got := m.execStart(); got != tc.args {
				t.Errorf("arguments %s, want %s", got, tc.args)
			}
			if got := m.line(env, "A4S_TOKEN="); got != tc.token {
				t.Errorf("token %s, want %s", got, tc.token)
			}
			if m.line(env, "A4S_NODE_NAME=") != `"n"` || m.line(env, "GOGC=") != "50" ||
				m.line("root/systemd/a4s.service", "Type=") != "exec" {
				t.Errorf("not kept: %s%s", m.read(env), m.read("root/systemd/a4s.service"))
			}
			if got := m.restarted(); got != tc.restart {
				t.Errorf("restarted: %v, want %v", got, tc.restart)
			}
		})
	}
}

func TestUpgradeAndRollback(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.install(nil, "--disable-agent")
	rollback := []string{"INSTALL_A4S_ROLLBACK=true"}
	if out, err := m.try(rollback); err == nil || !strings.Contains(out, "nothing to go back to") {
		t.Errorf("rollback of a first installation: %v\n%s", err, out)
	}
	m.release("latest/download", "v2")
	m.calls()
	for _, step := range []struct {
		env  []string
		want string
	}{{nil, "v2"}, {rollback, "v1"}, {rollback, "v2"}, {rollback, "v1"}, {nil, "v2"}} {
		m.install(step.env)
		if got := m.version(); got != step.want {
			t.Errorf("%q: version %s, want %s", step.env, got, step.want)
		}
		if !m.restarted() {
			t.Errorf("%q: not restarted", step.env)
		}
		if got := m.execStart(); got != "server --disable-agent" {
			t.Errorf("%q: arguments %s", step.env, got)
		}
	}
	m.write("notes/broken", "", 0o644)
	m.release("latest/download", "v3")
	if out, err := m.try(nil); err == nil || !strings.Contains(out, "does not start") ||
		!strings.Contains(out, "INSTALL_A4S_ROLLBACK") {
		t.Errorf("an upgrade that does not start: %v\n%s", err, out)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	before := m.files()
	out := m.install([]string{"INSTALL_A4S_DRY_RUN=true"}, "--token", "secret")
	for _, want := range []string{"a4s-linux-amd64 as " + m.path("root/bin/a4s"),
		"would write " + m.path("root/systemd/a4s.service"),
		"would link " + m.path("root/bin/kubectl"), "would enable a4s"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if after := m.files(); after != before {
		t.Errorf("it changed files:\n%s", after)
	}
	if calls := m.calls(); !slices.Equal(calls, []string{"systemctl is-system-running"}) {
		t.Errorf("it called %q", calls)
	}
	if strings.Contains(out, "secret") {
		t.Errorf("it tells the token:\n%s", out)
	}
}

func TestSkips(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		env   string
		calls []string
	}{
		{"INSTALL_A4S_SKIP_START=true", []string{"systemctl daemon-reload", "systemctl enable a4s"}},
		{"INSTALL_A4S_SKIP_ENABLE=true", []string{"systemctl daemon-reload"}},
	} {
		m := newMachine(t)
		m.write("notes/state", "offline\n", 0o644)
		m.install([]string{tc.env})
		if calls := m.calls(); !slices.Equal(calls, tc.calls) {
			t.Errorf("%s: called %q, want %q", tc.env, calls, tc.calls)
		}
	}
	m := newMachine(t)
	if out, err := m.try([]string{"INSTALL_A4S_SKIP_DOWNLOAD=true"}); err == nil ||
		!strings.Contains(out, "missing or not executable") {
		t.Errorf("without a program: %v\n%s", err, out)
	}
	m.write("root/bin/a4s", program("mine"), 0o755)
	m.remove("tools/curl")
	m.install([]string{"INSTALL_A4S_SKIP_DOWNLOAD=true"})
	if v := m.version(); v != "mine" {
		t.Errorf("INSTALL_A4S_SKIP_DOWNLOAD replaced the program by %s", v)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		env  string
		want map[string]string
	}{
		{"", map[string]string{"ctr": "a4s", "crictl": "a4s", "kubectl": ""}},
		{"force", map[string]string{"ctr": "a4s", "crictl": "a4s", "kubectl": "a4s"}},
		{"skip", map[string]string{"ctr": "", "crictl": "", "kubectl": ""}},
	} {
		m := newMachine(t)
		m.tool("kubectl", "#!/bin/sh\n")
		m.install([]string{"INSTALL_A4S_SYMLINK=" + tc.env})
		for name, want := range tc.want {
			if got, _ := os.Readlink(m.path("root/bin", name)); got != want {
				t.Errorf("INSTALL_A4S_SYMLINK=%s: %s is a link to %q, want %q", tc.env, name, got, want)
			}
		}
	}
}

func TestSELinux(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.tool("getenforce", "#!/bin/sh\necho Enforcing\n")
	m.tool("restorecon", "#!/bin/sh\necho \"restorecon $*\" >>\"$MACHINE/calls\"\n")
	if out := m.install(nil); !strings.Contains(out, "SELinux is enforcing") {
		t.Errorf("no word about SELinux:\n%s", out)
	}
	if calls := m.calls(); !slices.Contains(calls, "restorecon "+m.path("root/bin/a4s")) {
		t.Errorf("the program was not labelled: %q", calls)
	}
}
