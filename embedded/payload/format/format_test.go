package format

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestPackRoundTrip(t *testing.T) {
	files := []File{{"images/pause.tar", []byte("tar")}, {"bin/runc", bytes.Repeat([]byte("runc"), 1000)},
		{"bin/cni/bridge", nil}}
	archive, manifest, err := Pack(files)
	if err != nil {
		t.Fatal(err)
	}
	reversed := []File{files[2], files[1], files[0]}
	if again, _, err := Pack(reversed); err != nil || !bytes.Equal(archive, again) {
		t.Errorf("the archive depends on the order of its files (%v)", err)
	}
	m, err := ParseManifest(manifest)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	modes := map[string]string{}
	err = m.Unpack(archive, func(e Entry, data []byte) error {
		got[e.Path], modes[e.Path] = string(data), e.Mode().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range files {
		want[f.Path] = string(f.Data)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("unpacked %v, want %v", got, want)
	}
	if want := map[string]string{"bin/runc": "-rwxr-xr-x", "bin/cni/bridge": "-rwxr-xr-x",
		"images/pause.tar": "-rw-r--r--"}; !reflect.DeepEqual(modes, want) {
		t.Errorf("modes are %v, want %v", modes, want)
	}
}

func TestPackRefusesPaths(t *testing.T) {
	for _, files := range [][]File{
		{{Path: "/bin/x"}}, {{Path: "../x"}}, {{Path: "bin/../x"}}, {{Path: ""}}, {{Path: "a\nb"}},
		{{Path: "bin/x"}, {Path: "bin/x"}},
	} {
		if _, _, err := Pack(files); err == nil {
			t.Errorf("Pack(%v) succeeded", files)
		}
	}
}

func TestUnpackFindsDamage(t *testing.T) {
	archive, manifest, err := Pack([]File{{"bin/runc", []byte("runc")}, {"bin/shim", []byte("shim")}})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(manifest), "\n")
	for name, tc := range map[string]struct{ manifest, archive string }{
		"cut archive":      {string(manifest), string(archive[:len(archive)-1])},
		"file not listed":  {lines[0] + lines[1], string(archive)},
		"file not there":   {string(manifest) + strings.Repeat("0", 64) + "  bin/more\n", string(archive)},
		"other content":    {lines[0] + lines[1] + strings.Repeat("0", 64) + "  bin/shim\n", string(archive)},
		"empty manifest":   {"", string(archive)},
		"no archive named": {lines[1] + lines[2], string(archive)},
		"path escapes":     {lines[0] + strings.Repeat("0", 64) + "  ../x\n", string(archive)},
		"short hash":       {"00  " + ArchiveName + "\n", string(archive)},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ParseManifest([]byte(tc.manifest))
			if err == nil {
				err = m.Unpack([]byte(tc.archive), func(Entry, []byte) error { return nil })
			}
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("error is %v, want %v", err, ErrDamaged)
			}
		})
	}
}
