//go:build linux

package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/a4s-io/a4s/embedded/guest/initrd"
)

// modules are those of a kernel.
type modules struct {
	paths   map[string]string // of files, by name
	builtin map[string]bool
}

// canonical is a module's name; files and dependencies write it in two ways.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// nameOf returns the name of the module in a file, which may be compressed.
func nameOf(file string) (string, bool) {
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(file), ".xz"), ".zst")
	name, ok := strings.CutSuffix(base, ".ko")
	return canonical(name), ok
}

func openModules(dir string) (*modules, error) {
	m := &modules{paths: map[string]string{}, builtin: map[string]bool{}}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if name, ok := nameOf(file); ok && err == nil && d.Type().IsRegular() {
			m.paths[name] = file
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	list, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	for line := range strings.FieldsSeq(string(list)) {
		if name, ok := nameOf(line); ok {
			m.builtin[name] = true
		}
	}
	return m, nil
}

// files returns the modules that are wanted, those that they depend on, and the
// order in which to load them. Of those that are helpful it takes what there is.
func (m *modules) files(ctx context.Context, wanted, helpful []string) ([]initrd.File, error) {
	var files []initrd.File
	var order strings.Builder
	done := map[string]bool{}
	var add func(name, by string) error
	add = func(name, by string) error {
		if done[name] || m.builtin[name] {
			return nil
		}
		done[name] = true
		file, ok := m.paths[name]
		if !ok {
			return fmt.Errorf("this kernel has no module %s (for %s)", name, by)
		}
		data, err := readModule(ctx, file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		needs, err := dependencies(data)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, n := range needs {
			if err := add(canonical(n), name); err != nil {
				return err
			}
		}
		files = append(files, initrd.File{Path: "lib/modules/" + name + ".ko", Mode: 0o644, Data: data})
		fmt.Fprintf(&order, "%s.ko\n", name)
		return nil
	}
	for _, name := range helpful {
		if m.paths[name] == "" {
			continue
		}
		if err := add(name, "the guest"); err != nil {
			return nil, err
		}
	}
	for _, name := range wanted {
		if err := add(name, "the guest"); err != nil {
			return nil, err
		}
	}
	return append(files, initrd.File{Path: "lib/modules/order", Mode: 0o644, Data: []byte(order.String())}), nil
}

func readModule(ctx context.Context, file string) ([]byte, error) {
	for suffix, tool := range map[string]string{".xz": "xz", ".zst": "zstd"} {
		if strings.HasSuffix(file, suffix) {
			out, err := command(ctx, filepath.Dir(file), tool, "-dc", file)
			return []byte(out), err
		}
	}
	return os.ReadFile(file)
}

// dependencies returns what a module says it depends on.
func dependencies(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("not a kernel module")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	var needs []string
	for entry := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok && list != "" {
			needs = append(needs, strings.Split(list, ",")...)
		}
	}
	return needs, nil
}
