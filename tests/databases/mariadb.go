package databases

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// StartMariaDB runs a MariaDB on a unix socket until the test ends, and returns
// the endpoint of a database in it, which is not there yet.
func StartMariaDB(t testing.TB) string {
	t.Helper()
	const server, install = "/usr/sbin/mariadbd", "/usr/bin/mariadb-install-db"
	if _, err := os.Stat(server); err != nil {
		t.Fatalf("run scripts/install-deps.sh: %v", err)
	}
	// The package of the server alone makes no user.
	account, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "my")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chown(dir, int(uid), -1); err != nil {
		t.Fatal(err)
	}
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "s")
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), name,
			append([]string{"--no-defaults", "--datadir=" + data}, args...)...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C.UTF-8"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		return cmd
	}
	if out, err := command(install, "--auth-root-authentication-method=normal", "--skip-test-db").
		CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	said := filepath.Join(dir, "log")
	process, err := run(command(server, "--socket="+socket,
		"--skip-networking", "--pid-file="+filepath.Join(dir, "pid"), "--log-error="+said))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.end(syscall.SIGTERM); err != nil {
			t.Errorf("MariaDB: %v", err)
		}
	})

	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.Logger = "root", "unix", socket, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close() //nolint:errcheck // what it was for is done
	for end := time.Now().Add(startTimeout); ; time.Sleep(50 * time.Millisecond) {
		err := db.PingContext(t.Context())
		if err == nil {
			break
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(said)
			t.Fatalf("MariaDB does not answer: %v\n%s", err, log)
		}
	}
	for _, statement := range []string{
		"CREATE USER a4s@localhost IDENTIFIED BY '" + Password + "'",
		"GRANT ALL ON cluster.* TO a4s@localhost",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("mysql://a4s:%s@unix(%s)/cluster", Password, socket)
}
