//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// W12: a container has a part of the machine's terminals, and all else of its
// configuration stays as it was.
func TestWallW12TerminalsOfAContainer(t *testing.T) {
	for _, tc := range []struct{ name, before, after string }{
		{"containerd's",
			`{"big":9223372036854775807,"mounts":[{"destination":"/proc","type":"proc"},` +
				`{"destination":"/dev/pts","type":"devpts","options":["newinstance","ptmxmode=0666"],"new":[1]}]}`,
			`{"big":9223372036854775807,"mounts":[{"destination":"/proc","type":"proc"},` +
				`{"destination":"/dev/pts","new":[1],"options":["newinstance","ptmxmode=0666","max=512"],` +
				`"type":"devpts"}]}`},
		{"without options", `{"mounts":[{"type":"devpts"}]}`, `{"mounts":[{"options":["max=512"],"type":"devpts"}]}`},
		{"with a limit", `{"mounts":[{"type":"devpts","options":["max=7"]}]}`, ""},
		{"without mounts", `{"process":{}}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.json")
			if err := os.WriteFile(file, []byte(tc.before), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := boundTerminals(file); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := tc.after
			if want == "" {
				want = tc.before
			}
			if string(got) != want || !json.Valid(got) {
				t.Errorf("%s, want %s", got, want)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("its mode is %v, %v", info, err)
			}
		})
	}
	if err := boundTerminals(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a container without a configuration is made")
	}
}
