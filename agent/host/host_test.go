package host

import (
	"os"
	"path/filepath"
	"testing"
)

func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestProbeFiles(t *testing.T) {
	tests := []struct {
		name    string
		files   map[string]string
		want    Info
		wantErr bool
	}{
		{
			name: "all capabilities under systemd",
			files: map[string]string{"proc/self/status": "Name:\tx\nCapEff:\t000001ffffffffff\n",
				"run/systemd/system/x": ""},
			want: Info{Systemd: true, CanLowerOOMScore: true},
		},
		{
			name:  "without CAP_SYS_RESOURCE and systemd",
			files: map[string]string{"proc/self/status": "CapEff:\t000001fffeffffff\n"},
		},
		{name: "no CapEff", files: map[string]string{"proc/self/status": "Name:\tx\n"}, wantErr: true},
		{name: "CapEff is not a number", files: map[string]string{"proc/self/status": "CapEff:\tzz\n"}, wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := probeFiles(writeTree(t, tt.files))
			if (err != nil) != tt.wantErr {
				t.Fatalf("error = %v, want one: %v", err, tt.wantErr)
			}
			if err == nil && got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	info, err := Probe()
	if err != nil {
		t.Fatal(err)
	}
	if info.MaxOpenFiles == 0 {
		t.Error("MaxOpenFiles is 0")
	}
}

func TestSystemdCgroups(t *testing.T) {
	for _, tt := range []struct{ v2, systemd, want bool }{
		{true, true, true}, {true, false, false}, {false, true, false}, {false, false, false},
	} {
		if got := (Info{CgroupV2: tt.v2, Systemd: tt.systemd}).SystemdCgroups(); got != tt.want {
			t.Errorf("cgroup v2 %v, systemd %v: got %v, want %v", tt.v2, tt.systemd, got, tt.want)
		}
	}
}

func TestResolvConf(t *testing.T) {
	const etc, run = "etc/resolv.conf", "run/systemd/resolve/resolv.conf"
	tests := []struct {
		name   string
		files  map[string]string
		want   string
		usable bool
	}{
		{"ordinary", map[string]string{etc: "search a.example\nnameserver 192.0.2.1\n"}, "/" + etc, true},
		{"stub", map[string]string{etc: "nameserver 127.0.0.53\n", run: "nameserver 192.0.2.1\n"}, "/" + run, true},
		{"IPv6 loopback and no other", map[string]string{etc: "nameserver ::1\n"}, "/" + etc, false},
		{"loopback and remote", map[string]string{etc: "nameserver ::1\nnameserver 192.0.2.1\n"}, "/" + etc, true},
		{"none", nil, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, usable := resolvConf(writeTree(t, tt.files))
			if path != tt.want || usable != tt.usable {
				t.Errorf("got %q, %v; want %q, %v", path, usable, tt.want, tt.usable)
			}
		})
	}
}
