package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

const (
	s3Flag          = "etcd-s3"
	s3RetentionFlag = "etcd-s3-retention"
	s3Scheme        = "s3://"
	// s3Category groups the flags of S3 storage in the help.
	s3Category = "S3 storage"
)

// s3Flags are the flags of S3 storage but for that of retention, with the
// aliases that k3s has. what is what the command does with the storage.
func s3Flags(what string) []cli.Flag {
	var out []cli.Flag
	for _, s := range config.S3Settings() {
		if s.Name == s3RetentionFlag {
			continue
		}
		alias := strings.TrimPrefix(s.Name, "etcd-")
		if s.Kind() == config.Bool {
			usage := s.Usage
			if s.Name == s3Flag {
				usage = what
			}
			out = append(out,
				&cli.BoolFlag{Name: s.Name, Aliases: []string{alias}, Usage: usage, Category: s3Category})
			continue
		}
		out = append(out, placeholderFlag{&cli.StringFlag{Name: s.Name, Aliases: []string{alias}, Usage: s.Usage,
			Category: s3Category}, s.Placeholder})
	}
	return out
}

// s3Names are the names of s3Flags.
func s3Names() []string {
	var out []string
	for _, f := range s3Flags("") {
		out = append(out, f.Names()[0])
	}
	return out
}

// parseS3 splits s3://bucket/folder/name.
func parseS3(url string) (bucket, folder, name string, err error) {
	rest := strings.TrimPrefix(url, s3Scheme)
	bucket, key, ok := strings.Cut(rest, "/")
	folder, name = path.Split(key)
	if !ok || bucket == "" || !archive.IsSnapshot(name) {
		return "", "", "", &problem.Input{Source: "snapshot", Value: url,
			Want: `s3://bucket/folder/name, as "a4s etcd-snapshot list -o json" prints it`}
	}
	return bucket, strings.Trim(folder, "/"), name, nil
}

// upload copies a saved snapshot to the store, if there is one.
func (p *snapshotPlaces) upload(ctx context.Context, out io.Writer, file string) error {
	if p.open == nil {
		return nil
	}
	_, url, err := archive.Upload(ctx, p.open, file)
	if err != nil {
		return err
	}
	_, err = problem.Show(out, "%s\n", url)
	return err
}

// list returns what both places have. With an error it returns what it found.
func (p *snapshotPlaces) list(ctx context.Context) ([]archive.Entry, error) {
	list, err := p.dir.List()
	if err != nil || p.open == nil {
		return list, err
	}
	store, err := p.open(ctx)
	if err != nil {
		return list, err
	}
	remote, err := store.List(ctx)
	return append(list, remote...), err
}

// store opens the store, nil if there is none.
func (p *snapshotPlaces) store(ctx context.Context) (*archive.Bucket, error) {
	if p.open == nil {
		return nil, nil //nolint:nilnil // there need not be one
	}
	return p.open(ctx)
}

// remove removes a snapshot wherever it is; store may be nil.
func (p *snapshotPlaces) remove(ctx context.Context, out io.Writer, store *archive.Bucket, name string) error {
	err := p.dir.Delete(name)
	if err == nil {
		_, err = problem.Show(out, "deleted %s\n", name)
	}
	var absent *problem.Input // no such file
	if store == nil || err != nil && !errors.As(err, &absent) {
		return err
	}
	found, remoteErr := store.Delete(ctx, name)
	switch {
	case remoteErr != nil:
		return remoteErr
	case !found && err != nil:
		return errors.Join(err, fmt.Errorf("nor is it in %s", store.Location()))
	case !found:
		return nil
	}
	_, err = problem.Show(out, "deleted %s\n", store.URL(name))
	return err
}

// fetch downloads a snapshot to a file that is there until release.
func (p *snapshotPlaces) fetch(ctx context.Context, name string) (file string, release func() error, err error) {
	if !archive.IsSnapshot(name) {
		return "", nil,
			&problem.Input{Source: "snapshot", Value: name, Want: `a name that "a4s etcd-snapshot list" prints`}
	}
	store, err := p.open(ctx)
	if err != nil {
		return "", nil, err
	}
	file, release, err = p.dir.Fetch(name, func(w io.Writer) error { return store.Download(ctx, name, w) })
	if errors.Is(err, archive.ErrDamaged) || errors.Is(err, archive.ErrForeign) || errors.Is(err, archive.ErrFormat) {
		err = &problem.Input{Source: "snapshot", Value: store.URL(name), Err: err,
			Want: `one that "a4s etcd-snapshot save" uploaded`}
	}
	if err != nil {
		if local, findErr := p.dir.Find(name); findErr == nil {
			err = fmt.Errorf("%w; --etcd-s3=false restores %s", err, local)
		}
	}
	return file, release, err
}

// snapshotPlaces are where snapshots are.
type snapshotPlaces struct {
	local *config.Local
	dir   archive.Dir
	open  archive.Open // of the store, nil if there is none
}

// places reads the settings of a command with snapshotFlags. Overrides are
// flags that come last.
func places(c *call, m Modes, overrides []string, more ...string) (*snapshotPlaces, error) {
	args := givenFlags(c, append(append([]string{"config", "data-dir", snapshotDirFlag}, s3Names()...), more...)...)
	src := source(append(args, overrides...))
	src.CheckS3 = true
	l, err := config.LoadLocal(src)
	if err != nil {
		return nil, err
	}
	p := &snapshotPlaces{local: l, dir: archive.Dir(l.SnapshotDir)}
	if !l.S3.Enabled {
		return p, nil
	}
	p.open, err = m.SnapshotStore(&l.S3, func() (corev1.CoreV1Interface, error) {
		client, err := clientOf(l.Kubeconfig, "admin kubeconfig")
		if err != nil {
			return nil, err
		}
		return client.kube.CoreV1(), nil
	})
	return p, err
}

// localOnly finds the snapshot to restore if its store is one that only a running server knows.
func (p *snapshotPlaces) localOnly(snap string) (path string, err error) {
	path, err = p.dir.Find(snap)
	if err == nil || p.open == nil || !p.local.S3.InSecret() {
		return path, err
	}
	return "", errors.Join(err, &problem.Input{Source: config.Dashed("etcd-s3-config-secret"),
		Value: p.local.S3.ConfigSecret, Err: errors.New("there is no API to read it from during a restore"),
		Want: "a file that is here, or the other settings of S3, which are used instead of the Secret"})
}
