package install

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestRefusals: each says what is wrong and changes nothing. What goes wrong
// late is tried on a machine with an older version as well.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		prepare func(m *machine)
		env     []string
		args    []string
		want    string
		late    bool
	}{
		{name: "not root", prepare: func(m *machine) { m.tool("id", "#!/bin/sh\necho 1000\n") },
			want: "run it as root"},
		{name: "architecture", prepare: func(m *machine) {
			m.tool("uname", "#!/bin/sh\ncase $1 in -m) echo riscv64 ;; *) echo Linux ;; esac\n")
		}, want: "there is no a4s for riscv64"},
		{name: "no service manager", prepare: func(m *machine) { m.remove("tools/systemctl") },
			want: "neither systemd"},
		{name: "systemd does not run", prepare: func(m *machine) { m.write("notes/state", "offline\n", 0o644) },
			want: "INSTALL_A4S_SKIP_START=true"},
		{name: "checksum", prepare: func(m *machine) {
			m.remove("tools/zstd")
			m.write("mirror/latest/download/a4s-linux-amd64", program("evil"), 0o755)
		}, want: "checksum of", late: true},
		{name: "checksum of the packed",
			prepare: func(m *machine) { m.write("mirror/latest/download/a4s-linux-amd64.zst", "evil", 0o644) },
			want:    "checksum of", late: true},
		{name: "a page instead of a checksum",
			prepare: func(m *machine) { m.write("mirror/latest/download/a4s-linux-amd64.sha256", "<html>\n", 0o644) },
			want:    "is not a file of sha256sum"},
		{name: "a program that does not run",
			prepare: func(m *machine) { m.release("latest/download", "v2'; exit 1; echo '") },
			want:    "does not run on this machine", late: true},
		{name: "no such version", env: []string{"INSTALL_A4S_VERSION=v9"},
			want: "/download/v9/a4s-linux-amd64.sha256"},
		{name: "no downloader", prepare: func(m *machine) { m.remove("tools/curl") }, want: "neither curl nor wget"},
		{name: "no such directory", env: []string{"INSTALL_A4S_ARTIFACT_PATH=/nonexistent"},
			want: "INSTALL_A4S_ARTIFACT_PATH=/nonexistent"},
		{name: "no such key", env: []string{"INSTALL_A4S_PUBLIC_KEY=/nonexistent"},
			want: "INSTALL_A4S_PUBLIC_KEY=/nonexistent"},
		{name: "a command that is no service", args: []string{"kubectl", "get", "pods"},
			want: "the first argument is server, agent or a flag"},
		{name: "quotes", env: []string{"INSTALL_A4S_EXEC=server --node-label 'a"}, want: "quotes do not match"},
		{name: "a flag without value", args: []string{"--token"}, want: "has no value"},
		{name: "a line break", args: []string{"--node-label", "a\nb"}, want: "line break"},
		{name: "a line break in a variable", env: []string{"A4S_NODE_NAME=a\nb"},
			want: "A4S_NODE_NAME holds a line break"},
		{name: "a boolean", env: []string{"INSTALL_A4S_DRY_RUN=yes"},
			want: "INSTALL_A4S_DRY_RUN=yes: it is true or false"},
		{name: "a name", env: []string{"INSTALL_A4S_NAME=../x"}, want: "INSTALL_A4S_NAME=../x"},
		{name: "links", env: []string{"INSTALL_A4S_SYMLINK=no"}, want: "INSTALL_A4S_SYMLINK=no"},
		{name: "plain HTTP", env: []string{"A4S_URL=http://192.0.2.10:6443", "A4S_TOKEN=x"},
			want: "it must begin with https://"},
	} {
		for _, before := range []string{"nothing", "v0"} {
			if before != "nothing" && !tc.late {
				continue
			}
			t.Run(tc.name+", on "+before, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				if before != "nothing" {
					m.release("latest/download", before)
					m.install(nil, "--disable-agent")
					m.release("latest/download", "v1")
				}
				if tc.prepare != nil {
					tc.prepare(m)
				}
				m.refuses(tc.env, tc.args, tc.want)
			})
		}
	}
}

// refuses runs the script, which has to fail and to change nothing.
func (m *machine) refuses(env, args []string, want string) {
	m.t.Helper()
	m.calls()
	before := m.files()
	out, err := m.try(env, args...)
	if err == nil || !strings.Contains(out, want) {
		m.t.Errorf("%v, want an error with %q:\n%s", err, want, out)
	}
	if after := m.files(); after != before {
		m.t.Errorf("files changed:\n%s\nbefore:\n%s", after, before)
	}
	if calls := m.calls(); slices.ContainsFunc(calls,
		func(c string) bool { return c != "systemctl is-system-running" }) {
		m.t.Errorf("called %q", calls)
	}
}

func TestServicesDoNotReplaceEachOther(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.refuses([]string{"A4S_URL=https://192.0.2.10:6443"}, nil, "A4S_TOKEN is not")
	m.write("root/systemd/a4s.service", "[Service]\nExecStart=/mine\n", 0o644)
	m.refuses(nil, nil, "is not by this script")
	m.remove("root/systemd/a4s.service")

	m.install(nil)
	m.refuses(nil, []string{"agent"}, "is installed here as 'server'")
	m.refuses([]string{"INSTALL_A4S_BIN_DIR=" + m.path("root/elsewhere")}, nil, "to move it, uninstall it first")
	m.install([]string{"INSTALL_A4S_NAME=second", "A4S_DATA_DIR=" + m.path("root/data2")}, "agent",
		"--server", "https://192.0.2.10:6443")
	if got := m.line("root/systemd/a4s-second.service", "ExecStart="); !strings.Contains(got, " agent --server") {
		t.Errorf("ExecStart=%s", got)
	}
	m.refuses(nil, nil, "INSTALL_A4S_NAME")

	// The first to go leaves what the second needs.
	if out, err := m.made("a4s-uninstall.sh"); err != nil || m.version() != "v1" {
		t.Errorf("%v, %s", err, out)
	}
	if out, err := m.made("a4s-second-uninstall.sh"); err != nil {
		t.Errorf("%v, %s", err, out)
	}
	if left := m.left(); left != "" {
		t.Errorf("left: %s", left)
	}
}

// TestDiskFull: a limit on the size of files makes writing the program fail.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		prepare func(m *machine)
	}{
		{"packed", func(*machine) {}},
		{"download", func(m *machine) { m.remove("tools/zstd") }},
		{"image", func(m *machine) {
			m.env = append(m.env, "INSTALL_A4S_SKIP_DOWNLOAD=true", "INSTALL_A4S_ARTIFACT_PATH="+m.path("images"))
			m.write("images/x.tar", strings.Repeat("x", 1<<20), 0o644)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t)
			m.install(nil)
			m.release("latest/download", "v2")
			tc.prepare(m)
			before := m.files()
			out, err := m.shell(nil, "-c", `trap "" XFSZ; ulimit -f 64; exec sh -s -`)
			if err == nil || !strings.Contains(out, "is the disk full") {
				t.Errorf("%v:\n%s", err, out)
			}
			if after := m.files(); after != before {
				t.Errorf("files changed:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// TestHalfAScript: a download that breaks off does nothing.
func TestHalfAScript(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	whole, err := os.ReadFile(m.script)
	if err != nil {
		t.Fatal(err)
	}
	before := m.files()
	m.script = m.path("half.sh")
	for _, n := range []int{len(whole) / 3, len(whole) / 2, strings.LastIndex(string(whole), "main \"$@\"")} {
		m.write("half.sh", string(whole[:n]), 0o644)
		_, _ = m.try(nil) // whether it is a syntax error depends on where it broke
		if after := m.files(); after != before {
			t.Errorf("the first %d bytes changed files:\n%s", n, after)
		}
	}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	m.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), 0o644)
	env := []string{"INSTALL_A4S_PUBLIC_KEY=" + m.path("key.pem")}
	packed := "mirror/latest/download/a4s-linux-amd64.zst"
	sign := func(content string) {
		sum := sha256.Sum256([]byte(content))
		sig, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		m.write(packed+".sig", base64.StdEncoding.EncodeToString(sig), 0o644)
	}
	m.refuses(env, nil, "a4s-linux-amd64.zst.sig cannot be read")
	sign("another")
	m.refuses(env, nil, "is not one of")
	sign(m.read(packed))
	openssl, err := os.Readlink(m.path("tools/openssl"))
	if err != nil {
		t.Fatal(err)
	}
	m.remove("tools/openssl")
	m.refuses(env, nil, "neither openssl nor cosign")
	if err := os.Symlink(openssl, m.path("tools/openssl")); err != nil {
		t.Fatal(err)
	}
	if out := m.install(env); !strings.Contains(out, "signature of a4s-linux-amd64.zst is good") {
		t.Errorf("it does not say that it checked:\n%s", out)
	}
	// The next version is checked as well, without being told to.
	m.release("latest/download", "v2")
	m.refuses(nil, nil, "is not one of")
}

// left returns the files that are left below root.
func (m *machine) left() string {
	out, err := exec.Command("find", m.path("root"), "-mindepth", "1", "!", "-path", m.path("root/bin"),
		"!", "-path", m.path("root/systemd"), "!", "-path", m.path("root/init.d")).Output()
	if err != nil {
		m.t.Fatal(err)
	}
	return string(out)
}

func TestOfflineAndUninstall(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write("mirror/latest/download/images.tar.gz", "image", 0o644)
	m.write("mirror/latest/download/a4s-airgap-linux-amd64.tar.zst", "holds images", 0o644)
	m.install([]string{"INSTALL_A4S_ARTIFACT_PATH=" + m.path("mirror/latest/download")},
		"--data-dir", m.path("root/other"))
	if got := m.read("root/other/agent/images/images.tar.gz"); got != "image" {
		t.Errorf("the archive of images holds %q", got)
	}
	if strings.Contains(m.files(), "root/other/agent/images/a4s-airgap") {
		t.Error("the archive of a release is taken for one of images")
	}
	m.write("root/systemd/a4s.service.d/mine.conf", "", 0o644)
	m.write("root/etc/config.yaml", "debug: true\n", 0o644)
	m.write("root/bin/neighbour", "", 0o755)

	m.calls()
	if out, err := m.made("a4s-killall.sh"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := []string{"systemctl cat a4s", "systemctl stop a4s", "a4s killall --data-dir " + m.path("root/other")}
	if calls := m.calls(); !slices.Equal(calls, want) {
		t.Errorf("killall called %q, want %q", calls, want)
	}
	if m.read("root/other/agent/images/images.tar.gz") == "" || m.version() != "v1" {
		t.Error("killall removed data or the program")
	}
	if out, err := m.made("a4s-uninstall.sh"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want = append(want, "systemctl disable a4s", "systemctl daemon-reload", "systemctl reset-failed a4s")
	if calls := m.calls(); !slices.Equal(calls, want) {
		t.Errorf("uninstall called %q, want %q", calls, want)
	}
	if left := m.left(); strings.TrimSpace(left) != m.path("root/bin/neighbour") {
		t.Errorf("left:\n%s", left)
	}
}

func TestUninstallFindsTheDataDirectory(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"in the configuration": "config.yaml",
		"in a drop-in": "config.yaml.d/10-x.yaml"} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.env = slices.DeleteFunc(m.env, func(e string) bool { return strings.HasPrefix(e, "A4S_DATA_DIR=") })
			m.write("root/etc/"+config, "token: x\ndata-dir: \""+m.path("root/configured")+"\" # here\n", 0o600)
			m.write("images/x.tar", "image", 0o644)
			m.install(nil)
			m.install([]string{"INSTALL_A4S_SKIP_DOWNLOAD=true", "INSTALL_A4S_ARTIFACT_PATH=" + m.path("images")})
			if got := m.read("root/configured/agent/images/x.tar"); got != "image" {
				t.Errorf("the archive of images holds %q", got)
			}
			if out, err := m.made("a4s-uninstall.sh"); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if left := m.left(); left != "" {
				t.Errorf("left:\n%s", left)
			}
		})
	}
	m := newMachine(t)
	m.install([]string{"A4S_DATA_DIR=/usr"})
	if out, err := m.made("a4s-uninstall.sh"); err == nil || !strings.Contains(out, "is one of the system") {
		t.Errorf("uninstall with a data directory of the system: %v\n%s", err, out)
	}
}

func TestOpenRC(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.remove("tools/systemctl")
	for _, name := range []string{"openrc-run", "rc-service", "rc-update"} {
		m.tool(name, openrc)
	}
	m.install([]string{"A4S_TOKEN=a'b $c"}, "server", "--node-label", "x=it's $HOME")
	want := []string{"rc-update add a4s default", "rc-service a4s restart"}
	if calls := m.calls(); !slices.Equal(calls, want) {
		t.Errorf("called %q, want %q", calls, want)
	}
	// What openrc-run does with the script: it reads it, and evaluates the arguments.
	out, err := exec.Command("sh", "-euc",
		`. "$0"; eval "set -- $command_args"; printf '%s\n' "$command" "$@"; sh -c 'printf "%s\n" "$A4S_TOKEN"'`,
		m.path("root/init.d/a4s")).CombinedOutput()
	if got, want := string(out), m.path("root/bin/a4s")+"\nserver\n--node-label\nx=it's $HOME\na'b $c\n"; err != nil ||
		got != want {
		t.Errorf("%v: the script means\n%swant\n%s", err, got, want)
	}
	m.install(nil)
	if m.restarted() {
		t.Error("restarted though nothing changed")
	}
	if out, err := m.made("a4s-uninstall.sh"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left := m.left(); left != "" {
		t.Errorf("left:\n%s", left)
	}
}
