package guest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/agent/vm/shares"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

func TestShare(t *testing.T) {
	v, c, ctx := boot(t)
	dir := t.TempDir()
	for name, content := range map[string]string{"config/..data/key": "value", "config/up": "x", "file": "content"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"config/key": "..data/key", "config/out": "/etc/passwd"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []shares.Mount{
		{Name: "c/0", Source: filepath.Join(dir, "config"), ReadOnly: true},
		{Name: "c/1", Source: filepath.Join(dir, "file")},
	} {
		if err := shares.Add(v.dir, m); err != nil {
			t.Fatal(err)
		}
	}
	id := v.create(t, ctx, c, guest.Container{Process: box("sleep"), Mounts: []guest.Mount{
		{Type: protocol.MountShared, Source: "c/0", Destination: "/etc/config", Readonly: true},
		{Type: protocol.MountShared, Source: "c/1", Destination: "/etc/file"},
	}})
	if _, err := c.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"cat", "/etc/config/key"}, 0, "value"},
		{[]string{"cat", "/etc/config/out"}, 0, "web:x:1000"},
		{[]string{"write", "/etc/config/new", "x"}, 1, "read-only file system"},
		{[]string{"cat", "/etc/file"}, 0, "content"},
		{[]string{"write", "/etc/file", "changed"}, 0, ""},
	} {
		code, stdout, stderr := run(t, ctx, c, id, box(test.args...))
		if code != test.code || !strings.Contains(stdout+stderr, test.want) {
			t.Errorf("%v: %d, %q, %q; want %d and %q", test.args, code, stdout, stderr, test.code, test.want)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(data) != "changed" {
		t.Errorf("on the host: %q, %v", data, err)
	}
	err := c.Create(ctx, guest.Container{ID: "x", Process: box("sleep"), Root: guest.Disk{Serial: "none"},
		Mounts: []guest.Mount{{Type: protocol.MountShared, Source: "../x", Destination: "/x"}}})
	if !errors.Is(err, guest.ErrInvalid) {
		t.Errorf("a path out of the share: %v", err)
	}
}

func TestNetwork(t *testing.T) {
	v, c, ctx := boot(t)
	id := v.create(t, ctx, c, guest.Container{Process: box("sleep")})
	if _, err := c.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	look := func() string {
		_, out, _ := run(t, ctx, c, id, box("net"))
		return out
	}
	got := look()
	for _, want := range []string{
		"lo up", "eth0 up 1400 10.9.0.2/24 fd00:9::2/64 ", "\neth0\t00000000\t0100090A\t",
		"\neth0\t00000A0A\t00000000\t", "\neth0\t00000B0A\t0101FEA9\t",
		"fd000009000000000000000000000001 00000400",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for range 2 { // the same again changes nothing
		if err := c.Setup(ctx, sandbox("10.9.0.3/24", "fd00:9::3/64")); err != nil {
			t.Fatal(err)
		}
	}
	if got := look(); !strings.Contains(got, "eth0 up 1400 10.9.0.3/24 fd00:9::3/64 ") ||
		!strings.Contains(got, "\neth0\t00000000\t0100090A\t") {
		t.Errorf("with other addresses:\n%s", got)
	}
}
