package qemu

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

// fakeQEMU is a program that notes that it ran, and ends.
func fakeQEMU(t *testing.T) (binary, ran string) {
	t.Helper()
	dir := t.TempDir()
	binary, ran = filepath.Join(dir, "qemu"), filepath.Join(dir, "ran")
	script := "#!/bin/sh\necho x >>" + ran + "\necho it does not work >&2\nexit 1\n"
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return binary, ran
}

func runs(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(data), "x")
}

func TestChoose(t *testing.T) {
	binary, ran := fakeQEMU(t)
	kernel := filepath.Join(t.TempDir(), "kernel")
	if err := os.WriteFile(kernel, []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Probe{Binary: binary, Kernel: kernel, Initrd: kernel, Cache: filepath.Join(t.TempDir(), "kvm.json"),
		Device: "/dev/null"}
	for _, tc := range []struct {
		name, want string
		change     func(*Probe)
		choice     Accelerator
		reason     string
		ran        int
	}{
		{"asked for kvm", "kvm", nil, KVM, "asked for", 0},
		{"asked for tcg", "tcg", nil, TCG, "asked for", 0},
		{"no device", "auto", func(p *Probe) { p.Device = "/no/kvm" }, TCG, "/no/kvm", 0},
		{"does not boot", "auto", nil, TCG, "it does not work", 1},
		{"kept", "auto", nil, TCG, "it does not work", 1},
		{"another command line", "auto", func(p *Probe) { p.Cmdline = "x" }, TCG, "it does not work", 2},
		{"broken cache", "auto", func(p *Probe) {
			if err := os.WriteFile(p.Cache, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, TCG, "it does not work", 3},
		{"old doubt", "auto", func(p *Probe) {
			data, err := os.ReadFile(p.Cache)
			if err == nil {
				err = os.WriteFile(p.Cache, []byte(strings.Replace(string(data), `"at":"2`, `"at":"1`, 1)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, TCG, "it does not work", 4},
	} {
		p := p
		if tc.change != nil {
			tc.change(&p)
		}
		c, err := Choose(t.Context(), tc.want, p)
		if err != nil || c.Accelerator != tc.choice || !strings.Contains(c.Reason, tc.reason) {
			t.Errorf("%s: %+v, %v", tc.name, c, err)
		}
		if got := runs(t, ran); got != tc.ran {
			t.Errorf("%s: QEMU was tried %d times so far, want %d", tc.name, got, tc.ran)
		}
	}
	var input *problem.Input
	if _, err := Choose(t.Context(), "xen", p); !errors.As(err, &input) {
		t.Errorf("unknown accelerator: %v", err)
	}
	p.Binary = "no-such-qemu"
	var missing *problem.Precondition
	if _, err := Choose(t.Context(), "auto", p); !errors.As(err, &missing) {
		t.Errorf("without QEMU: %v", err)
	}
}
