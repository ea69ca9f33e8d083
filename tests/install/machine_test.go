package install

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tools are what the script and those it makes may use of the system.
var tools = strings.Fields(
	`sh awk basename cat chmod cmp cp curl cut df dirname env find grep head ln ls mkdir mktemp mv
	openssl printf readlink rm rmdir sed sha256sum sort tail tr xargs zstd`)

// systemctl is a stand-in that knows whether the service is active.
const systemctl = `#!/bin/sh
echo "systemctl $*" >>"$MACHINE/calls"
case $1 in
is-system-running) cat "$MACHINE/state" ;;
is-active) test -e "$MACHINE/active" ;;
restart) test ! -e "$MACHINE/broken" && : >"$MACHINE/active" ;;
stop) rm -f "$MACHINE/active" ;;
esac
`

// openrc is a stand-in for rc-service and rc-update.
const openrc = `#!/bin/sh
echo "${0##*/} $*" >>"$MACHINE/calls"
case $* in
*restart) : >"$MACHINE/active" ;;
*status) test -e "$MACHINE/active" ;;
*stop) rm -f "$MACHINE/active" ;;
esac
`

// machine is a place to install to, with a mirror to install from.
type machine struct {
	t      *testing.T
	dir    string // holds root (what is installed), tools and mirror
	script string
	mirror string // URL
	env    []string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	script, err := filepath.Abs("../../scripts/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, dir: t.TempDir(), script: script}
	m.write("notes/state", "running\n", 0o644)
	for _, name := range tools {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("run scripts/install-deps.sh: %v", err)
		}
		m.mkdir("tools")
		if err := os.Symlink(path, m.path("tools", name)); err != nil {
			t.Fatal(err)
		}
	}
	m.tool("id", "#!/bin/sh\necho 0\n")
	m.tool("uname", "#!/bin/sh\ncase $1 in -m) echo x86_64 ;; *) echo Linux ;; esac\n")
	m.tool("systemctl", systemctl)
	for _, d := range []string{"root", "tmp", "mirror"} {
		m.mkdir(d)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(m.path("mirror"))))
	t.Cleanup(server.Close)
	m.mirror = server.URL
	m.env = []string{
		"PATH=" + m.path("tools"), "TMPDIR=" + m.path("tmp"), "MACHINE=" + m.path("notes"),
		"INSTALL_A4S_BIN_DIR=" + m.path("root/bin"), "INSTALL_A4S_SYSTEMD_DIR=" + m.path("root/systemd"),
		"INSTALL_A4S_OPENRC_DIR=" + m.path("root/init.d"), "INSTALL_A4S_CONFIG_DIR=" + m.path("root/etc"),
		"INSTALL_A4S_DOWNLOAD_URL=" + m.mirror, "A4S_DATA_DIR=" + m.path("root/data"),
	}
	m.release("latest/download", "v1")
	return m
}

func (m *machine) path(parts ...string) string {
	return filepath.Join(append([]string{m.dir}, parts...)...)
}

func (m *machine) mkdir(name string) {
	m.t.Helper()
	if err := os.MkdirAll(m.path(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) write(name, content string, mode os.FileMode) {
	m.t.Helper()
	m.mkdir(filepath.Dir(name))
	if err := os.WriteFile(m.path(name), []byte(content), mode); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) read(name string) string {
	m.t.Helper()
	data, err := os.ReadFile(m.path(name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(data)
}

func (m *machine) remove(name string) {
	m.t.Helper()
	if err := os.Remove(m.path(name)); err != nil {
		m.t.Fatal(err)
	}
}

// tool replaces one of the system's programs.
func (m *machine) tool(name, script string) {
	m.t.Helper()
	_ = os.Remove(m.path("tools", name)) // it may be a link to the real one
	m.write("tools/"+name, script, 0o755)
}

// program is what a build of a4s is here: it says its version, and notes how it
// was told to clean up.
func program(version string) string {
	return "#!/bin/sh\ncase $1 in\n--version) echo 'a4s version " + version + "' ;;\n" +
		"killall) echo \"a4s $*\" >>\"$MACHINE/calls\" ;;\nesac\n#" + strings.Repeat(version, 1<<17) + "\n"
}

// release publishes a build below dir as `make release` names it.
func (m *machine) release(dir, version string) { m.releaseFor("amd64", dir, version) }

func (m *machine) releaseFor(arch, dir, version string) {
	m.t.Helper()
	name := filepath.Join("mirror", dir, "a4s-linux-"+arch)
	m.write(name, program(version), 0o755)
	if out, err := exec.Command("zstd", "-q", "-f", m.path(name), "-o", m.path(name+".zst")).
		CombinedOutput(); err != nil {
		m.t.Fatalf("%v: %s", err, out)
	}
	for _, f := range []string{name, name + ".zst"} {
		m.write(f+".sha256", fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(m.read(f))), filepath.Base(f)), 0o644)
	}
}

// try runs the script as curl would feed it.
func (m *machine) try(env []string, args ...string) (string, error) {
	m.t.Helper()
	return m.shell(env, append([]string{"-s", "-"}, args...)...)
}

func (m *machine) shell(env []string, args ...string) (string, error) {
	m.t.Helper()
	script, err := os.Open(m.script)
	if err != nil {
		m.t.Fatal(err)
	}
	defer script.Close()
	cmd := exec.Command(m.path("tools/sh"), args...)
	cmd.Env, cmd.Stdin = slices.Concat(m.env, env), script
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) install(env []string, args ...string) string {
	m.t.Helper()
	out, err := m.try(env, args...)
	if err != nil {
		m.t.Fatalf("install.sh %q: %v\n%s", args, err, out)
	}
	return out
}

// made runs a script that install.sh made.
func (m *machine) made(name string) (string, error) {
	cmd := exec.Command(m.path("root/bin", name))
	cmd.Env = m.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// version runs what is installed.
func (m *machine) version() string {
	m.t.Helper()
	out, err := exec.Command(m.path("root/bin/a4s"), "--version").Output()
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(out), "a4s version "))
}

// calls returns how the service manager and a4s were called since the last time.
func (m *machine) calls() []string {
	data, err := os.ReadFile(m.path("notes/calls"))
	if err != nil {
		return nil
	}
	m.remove("notes/calls")
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func (m *machine) restarted() bool {
	return slices.ContainsFunc(m.calls(), func(c string) bool { return strings.Contains(c, "restart") })
}

// files returns all that is below root, with modes and contents.
func (m *machine) files() string {
	m.t.Helper()
	var b bytes.Buffer
	for _, dir := range []string{"root", "tmp"} {
		err := filepath.WalkDir(m.path(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s %s", info.Mode(), path)
			if info.Mode().IsRegular() {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, " %x", sha256.Sum256(data))
			}
			b.WriteByte('\n')
			return nil
		})
		if err != nil {
			m.t.Fatal(err)
		}
	}
	return b.String()
}

// line returns the line of a file that begins with prefix, without it.
func (m *machine) line(name, prefix string) string {
	m.t.Helper()
	for line := range strings.Lines(m.read(name)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSuffix(rest, "\n")
		}
	}
	return ""
}

func (m *machine) execStart() string {
	return strings.TrimPrefix(m.line("root/systemd/a4s.service", "ExecStart="), m.path("root/bin/a4s")+" ")
}
