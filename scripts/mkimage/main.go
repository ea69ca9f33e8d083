//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/a4s-io/a4s/scripts/ociarchive"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "mkimage: %v\n", err)
		os.Exit(1)
	}
}

// repeated is a flag that may be given several times.
type repeated []string

func (r *repeated) String() string     { return strings.Join(*r, " ") }
func (r *repeated) Set(s string) error { *r = append(*r, s); return nil }

// options are the command line.
type options struct {
	image                        ociarchive.Image
	goPackages, debs, files      repeated
	links, dirs                  repeated
	entrypoint, cmd, env, labels repeated
	out, cache                   string
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("mkimage", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.image.Ref, "name", "", "full image `reference`, registry/repository:tag")
	fs.StringVar(&o.image.Architecture, "arch", runtime.GOARCH, "`architecture` of the image, and of what --go builds")
	fs.StringVar(&o.out, "out", "", "archive `file` to write")
	fs.Var(&o.goPackages, "go", "Go main `package=/path`, built statically")
	fs.Var(&o.debs, "deb", "Debian `package`, with what it depends on")
	fs.Var(&o.files, "file", "file or directory `source=/path`")
	fs.Var(&o.links, "link", "symbolic link `target=/path`")
	fs.Var(&o.dirs, "dir", "empty directory `/path[=mode]`, the mode in octal")
	fs.Var(&o.entrypoint, "entrypoint", "one `word` of the entry point")
	fs.Var(&o.cmd, "cmd", "one `word` of the default arguments")
	fs.Var(&o.env, "env", "environment `NAME=value`")
	fs.Var(&o.labels, "label", "label `key=value`")
	fs.StringVar(&o.image.User, "user", "", "`user` or user:group, as numbers")
	fs.StringVar(&o.image.WorkingDir, "workdir", "", "working `directory`")
	fs.BoolVar(&o.image.Plain, "plain", false, "do not compress the layer")
	fs.StringVar(&o.cache, "cache", "",
		"`directory` for downloads (default: a4s-mkimage in the user's cache directory)")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q: every input is a flag", fs.Arg(0))
	case o.image.Ref == "":
		return nil, errors.New("--name is missing: want a full reference, such as docker.io/a4s/web:1")
	case len(o.debs) > 0 && o.image.Architecture != runtime.GOARCH:
		return nil, fmt.Errorf("--arch %s: packages (--deb) are those of this machine, which is %s",
			o.image.Architecture, runtime.GOARCH)
	case o.out == "":
		return nil, errors.New("--out is missing: want the archive file to write")
	}
	o.image.Entrypoint, o.image.Cmd, o.image.Env = o.entrypoint, o.cmd, o.env
	for _, l := range o.labels {
		key, value, ok := strings.Cut(l, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--label %q: want key=value", l)
		}
		if o.image.Labels == nil {
			o.image.Labels = map[string]string{}
		}
		o.image.Labels[key] = value
	}
	if o.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			dir = os.TempDir()
		}
		o.cache = filepath.Join(dir, "a4s-mkimage")
	}
	return o, nil
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	// Packages first, so that a file given by hand replaces one of theirs.
	if len(o.debs) > 0 {
		files, err := debian(ctx, o.cache, o.debs)
		if err != nil {
			return err
		}
		o.image.Files = append(o.image.Files, files...)
	}
	for _, add := range []func(context.Context, *options) ([]ociarchive.File, error){dirs, links, goFiles, hostFiles} {
		files, err := add(ctx, o)
		if err != nil {
			return err
		}
		o.image.Files = append(o.image.Files, files...)
	}
	return write(o.out, o.image)
}

// write writes the archive so that it is there whole or not at all.
func write(out string, img ociarchive.Image) (err error) {
	f, err := os.CreateTemp(filepath.Dir(out), "."+filepath.Base(out)+"-")
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	err = ociarchive.Write(f, img)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), out)
}
