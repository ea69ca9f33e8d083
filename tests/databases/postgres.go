package databases

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Password is that of the user a4s in databases of tests.
const Password = "not.for.anybody"

// startTimeout bounds the start of a database server.
const startTimeout = 4 * time.Minute

// PostgreSQL is a running server.
type PostgreSQL struct {
	bin, dir string
	uid, gid uint32
	process  *program
}

// StartPostgreSQL runs a PostgreSQL on a unix socket until the test ends. Its
// user a4s may make databases and needs Password.
func StartPostgreSQL(t testing.TB) *PostgreSQL {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		t.Fatalf("there is no PostgreSQL in /usr/lib/postgresql: run scripts/install-deps.sh (%v)", err)
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	p := &PostgreSQL{bin: found[len(found)-1]}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	p.uid, p.gid = uint32(uid), uint32(gid)
	// The directory of a test is for its user only, and the path of a socket
	// is short.
	if p.dir, err = os.MkdirTemp("", "pg"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(p.dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chown(p.dir, int(uid), int(gid)); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(p.dir, "secret")
	if err := os.WriteFile(secret, []byte(Password+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := p.command(t.Context(), "initdb", "-D", p.data(), "-U", "a4s", "-A", "scram-sha-256",
		"--pwfile", secret, "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	p.Start(t)
	t.Cleanup(func() { p.Stop(t) })
	return p
}

func (p *PostgreSQL) data() string { return filepath.Join(p.dir, "data") }

func (p *PostgreSQL) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...)
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "PGPASSWORD=" + Password}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.uid, Gid: p.gid}}
	return cmd
}

// Start runs the server, which is stopped, and waits until it answers.
func (p *PostgreSQL) Start(t testing.TB) {
	t.Helper()
	logs, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close() //nolint:errcheck // the server has its own
	cmd := p.command(context.WithoutCancel(t.Context()), "postgres", "-D", p.data(), "-k", p.dir,
		"-c", "listen_addresses=")
	cmd.Stdout, cmd.Stderr = logs, logs
	if p.process, err = run(cmd); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for {
		out, err := p.command(ctx, "pg_isready", "-h", p.dir).CombinedOutput()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			said, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			t.Fatalf("PostgreSQL does not answer: %v\n%s%s", err, out, said)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop ends the server, unless it has ended. What was committed stays.
func (p *PostgreSQL) Stop(t testing.TB) {
	t.Helper()
	if p.process == nil {
		return
	}
	if err := p.process.end(syscall.SIGINT); err != nil { // "fast"
		t.Errorf("PostgreSQL: %v", err)
	}
	p.process = nil
}

// Kill ends the server as a loss of power would, if the disk keeps what it was
// told to keep.
func (p *PostgreSQL) Kill(t testing.TB) {
	t.Helper()
	_ = p.process.end(syscall.SIGQUIT) // "immediate": all of its processes, without a checkpoint
	p.process = nil
}

// Endpoint is a database of it, for --datastore-endpoint.
func (p *PostgreSQL) Endpoint(database string) string {
	return fmt.Sprintf("postgres://a4s:%s@/%s?host=%s", url.QueryEscape(Password), database, url.QueryEscape(p.dir))
}

// Query runs a statement in a database and returns what it prints.
func (p *PostgreSQL) Query(t testing.TB, database, statement string) string {
	t.Helper()
	out, err := p.command(t.Context(), "psql", "-h", p.dir, "-U", "a4s", "-At", "-c", statement,
		database).CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}
