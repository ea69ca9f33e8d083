//go:build linux

package machine

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

func lines(text string) [][]string {
	var all [][]string
	for l := range strings.FieldsSeq(text) {
		all = append(all, strings.Split(l, ":"))
	}
	return all
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var e *server.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("got %v, want the code %s", err, code)
	}
}

func TestWhoIs(t *testing.T) {
	passwd := lines("root:x:0:0:root:/root:/bin/sh web:x:1000:1001:Web:/home/web:/bin/sh " +
		"7:x:70:70::/seven: bad:x:a:b:::")
	group := lines("root:x:0: www:x:1001: logs:x:44:nobody,web audio:x:29:webby")
	gid := uint32(9)
	for name, test := range map[string]struct {
		user protocol.User
		want identity
	}{
		"nobody said":      {protocol.User{}, identity{0, 0, nil, "/root"}},
		"name":             {protocol.User{Name: "web"}, identity{1000, 1001, []uint32{44}, "/home/web"}},
		"number of a user": {protocol.User{Name: "1000"}, identity{1000, 1001, []uint32{44}, "/home/web"}},
		"name of digits":   {protocol.User{Name: "7"}, identity{70, 70, nil, "/seven"}},
		"unknown number":   {protocol.User{Name: "4711"}, identity{4711, 0, nil, "/"}},
		"group by name":    {protocol.User{Name: "web:logs"}, identity{1000, 44, []uint32{44}, "/home/web"}},
		"group by number":  {protocol.User{Name: "4711:12"}, identity{4711, 12, nil, "/"}},
		"group overridden": {protocol.User{Name: "web:logs", Group: &gid},
			identity{1000, 9, []uint32{44}, "/home/web"}},
		"strict": {protocol.User{Name: "web", Strict: true, Groups: []uint32{5}},
			identity{1000, 1001, []uint32{5}, "/home/web"}},
		"supplementary": {protocol.User{Name: "web", Groups: []uint32{5}},
			identity{1000, 1001, []uint32{44, 5}, "/home/web"}},
		"nothing but a group": {protocol.User{Name: ":12"}, identity{0, 12, nil, "/root"}},
	} {
		got, err := whoIs(test.user, passwd, group)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
	for _, name := range []string{"stranger", "web:strangers", "-1", "4294967296", "bad"} {
		_, err := whoIs(protocol.User{Name: name}, passwd, group)
		wantCode(t, err, protocol.CodeInvalid)
	}
	if who, err := whoIs(protocol.User{Name: "1"}, nil, nil); err != nil || who.uid != 1 {
		t.Errorf("without files: %+v, %v", who, err)
	}
}

func TestCapabilitySets(t *testing.T) {
	if caps, _, err := capabilitySets(protocol.Process{}, false); err != nil || caps != 0xa80425fb {
		t.Errorf("by default %x, %v", caps, err) // what containerd gives
	}
	if caps, _, err := capabilitySets(protocol.Process{}, true); err != nil || caps != 1<<41-1 {
		t.Errorf("privileged %x, %v", caps, err)
	}
	if caps, _, err := capabilitySets(protocol.Process{Capabilities: &[]string{}}, true); err != nil || caps != 0 {
		t.Errorf("none %x, %v", caps, err)
	}
	p := protocol.Process{Capabilities: &[]string{"cap_kill", "NET_RAW"},
		AmbientCapabilities: []string{"CAP_CHECKPOINT_RESTORE"}}
	if caps, ambient, err := capabilitySets(p, false); err != nil || caps != 1<<5|1<<13|1<<40 || ambient != 1<<40 {
		t.Errorf("some %x, %x, %v", caps, ambient, err)
	}
	_, _, err := capabilitySets(protocol.Process{Capabilities: &[]string{"CAP_FLY"}}, false)
	wantCode(t, err, protocol.CodeInvalid)
}

func TestMountOptions(t *testing.T) {
	flags, data, err := mountOptions([]string{"ro", "data=ordered", "noatime", "errors=remount-ro"})
	if err != nil || flags != mountFlags["ro"]|mountFlags["noatime"] || data != "data=ordered,errors=remount-ro" {
		t.Errorf("%x, %q, %v", flags, data, err)
	}
	_, _, err = mountOptions([]string{"a,b"})
	wantCode(t, err, protocol.CodeInvalid)
	_, err = attributes([]string{"noexec", "data=ordered"})
	wantCode(t, err, protocol.CodeInvalid)
}

func TestWeight(t *testing.T) {
	for shares, want := range map[int64]int64{0: 1, 2: 1, 1024: 39, 262144: 10000, 1 << 40: 10000} {
		if got := weight(shares); got != want {
			t.Errorf("%d shares are %d, want %d", shares, got, want)
		}
	}
}

func TestSysctlPath(t *testing.T) {
	for name, want := range map[string]string{
		"net.core.somaxconn":           "/proc/sys/net/core/somaxconn",
		"net/ipv4/conf/eth0.1/forward": "/proc/sys/net/ipv4/conf/eth0.1/forward",
		"../../etc/passwd":             "/proc/sys/etc/passwd",
	} {
		if got := sysctlPath(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/tool": 0o755, "b/tool": 0o755,
		"b/other": 0o755, "a/plain": 0o644} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=/nowhere", "PATH=" + dir + "/a:" + dir + "/b"}
	for name, want := range map[string]string{"tool": "a/tool", "other": "b/other"} {
		if got, err := lookPath(name, env); err != nil || got != filepath.Join(dir, want) {
			t.Errorf("%s is %s, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "none", "plain", dir, dir + "/a/plain", dir + "/none"} {
		_, err := lookPath(name, env)
		wantCode(t, err, protocol.CodeNoExecutable)
	}
}

func TestDefaultEnv(t *testing.T) {
	got := defaultEnv(protocol.Process{Env: []string{"HOME=/h", "X=1"}, TTY: true}, "pod", "/root")
	for _, want := range []string{"HOME=/h", "X=1", "HOSTNAME=pod", "TERM=xterm"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %v", want, got)
		}
	}
	if slices.Contains(got, "HOME=/root") {
		t.Error("HOME was overridden")
	}
}

func TestMakeTarget(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/nowhere/at/all", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	for path, isDir := range map[string]bool{"new/file": false, "new/dir": true, "dangling": false} {
		if err := makeTarget(filepath.Join(dir, path), isDir); err != nil {
			t.Error(err)
		}
		info, err := os.Lstat(filepath.Join(dir, path))
		if err != nil || info.IsDir() != isDir || !isDir && !info.Mode().IsRegular() {
			t.Errorf("%s: %v, %v", path, info, err)
		}
		if err := makeTarget(filepath.Join(dir, path), isDir); err != nil {
			t.Errorf("again: %v", err)
		}
	}
	if err := makeTarget(filepath.Join(dir, "new/file"), true); err == nil {
		t.Error("a directory on a file was accepted")
	}
}
