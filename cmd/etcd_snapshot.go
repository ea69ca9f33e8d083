package cmd

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

// SnapshotSave is what `a4s etcd-snapshot save` was asked for.
type SnapshotSave struct {
	DataDir string
	Dir     archive.Dir
	// Name begins the name of the file.
	Name string
	// Node is the configured node name, "" for the default.
	Node     string
	Compress bool
}

// SnapshotRestore is what `a4s etcd-snapshot restore` was asked for.
type SnapshotRestore struct {
	DataDir string
	// Path is that of the snapshot.
	Path         string
	OtherCluster bool
}

// SnapshotRestored is what a restore did.
type SnapshotRestored struct {
	Manifest *archive.Manifest
	// Kept is where the replaced server directory is, "" if there was none.
	Kept string
}

const (
	snapshotDirFlag       = "etcd-snapshot-dir"
	snapshotCompressFlag  = "etcd-snapshot-compress"
	snapshotRetentionFlag = "etcd-snapshot-retention"
	// onDemand begins the names of what save makes, unless told otherwise.
	onDemand = "on-demand"
)

func etcdSnapshotCommand(m Modes) *cli.Command {
	return group(&cli.Command{
		Name:  "etcd-snapshot",
		Usage: "save and restore the control plane",
		Description: "A snapshot holds the datastore and what else a server needs to start: certificates,\n" +
			"tokens, keys. Keep it as safe as the server itself. Settings of S3 storage are those of the\n" +
			"server of this machine unless flags say otherwise; --etcd-s3=false leaves it out. Their flags\n" +
			"have shorter names as well, --s3, --s3-bucket and so on.",
	},
		leaf(&cli.Command{
			Name:      "save",
			ArgsUsage: "[FLAGS]",
			Usage:     "take a snapshot of the running server of this machine",
			Description: "The file is read back before it gets its name, " +
				"and a copy in S3 storage before it counts.\n" +
				"If the copy fails the file is kept and the exit code is 1.",
			Action: action(func(c *call) error { return saveSnapshot(c, m) }),
		},
			append(snapshotFlags("copy the snapshot to S3-compatible storage as well"),
				text("name", "", onDemand, "beginning of the `NAME`; node and time follow"),
				toggle(snapshotCompressFlag, "snapshot-compress", "compress the snapshot"))...),
		leaf(&cli.Command{
			Name:      "list",
			ArgsUsage: "[FLAGS]",
			Usage:     "list snapshots",
			Aliases:   []string{"ls"},
			Action:    action(func(c *call) error { return listSnapshots(c, m) }),
		},
			append(snapshotFlags("list what is in S3-compatible storage, too"),
				outputFlag())...),
		leaf(&cli.Command{
			Name:      "delete",
			ArgsUsage: "NAME... [FLAGS]",
			Usage:     "delete snapshots",
			Before:    takes(1, -1, `the names of snapshots, as "a4s etcd-snapshot list" prints them`),
			Action:    action(func(c *call) error { return deleteSnapshots(c, m) }),
		},
			snapshotFlags("delete them from S3-compatible storage, too")...),
		leaf(&cli.Command{
			Name:      "prune",
			ArgsUsage: "[FLAGS]",
			Usage:     "delete the oldest snapshots of a name",
			Description: "Works on the snapshots of one name and of this node, " +
				"and keeps the newest ones in each place.",
			Action: action(func(c *call) error { return pruneSnapshots(c, m) }),
		},
			append(snapshotFlags("delete from S3-compatible storage, too"),
				text("name", "", onDemand, "beginning of the `NAME`"),
				count(snapshotRetentionFlag, "snapshot-retention", 0, "`NUMBER` of snapshots to keep",
					"that of the server"),
				count(s3RetentionFlag, "s3-retention", 0, "`NUMBER` of snapshots to keep in S3",
					"that of the server"))...),
		leaf(&cli.Command{
			Name:      "restore",
			ArgsUsage: "NAME|PATH|s3://BUCKET/FOLDER/NAME [FLAGS]",
			Usage:     "replace the control plane of this machine, whose server is stopped",
			Description: "The whole file is checked before anything is changed, and the server directory that\n" +
				"is replaced is kept beside the new one. Start the server afterwards. With --etcd-s3 a NAME\n" +
				"is downloaded first.",
			Before: takes(1, 1, `one snapshot, by the name that "a4s etcd-snapshot list" prints, `+
				`by its path or by its s3:// URL`),
			Action: action(func(c *call) error { return restoreSnapshot(c, m) }),
		},
			append(snapshotFlags("download the snapshot from S3-compatible storage"),
				toggle("other-cluster", "", "allow a snapshot of another cluster than the one that is here"))...),
	)
}

// snapshotFlags say where snapshots are. what is what the command does with S3 storage.
func snapshotFlags(what string) []cli.Flag {
	flags := append(localFlags(),
		text(snapshotDirFlag, "dir", "", "directory of snapshots at `PATH`", "that of the server"))
	return append(flags, s3Flags(what)...)
}

// snapshotName reads --name.
func snapshotName(c *call) (string, error) {
	name := c.String("name")
	if !config.ValidSnapshotName(name) {
		return "", &problem.Input{Source: "--name", Value: name, Want: "letters, digits, dots, dashes and underscores"}
	}
	return name, nil
}

func saveSnapshot(c *call, m Modes) error {
	name, err := snapshotName(c)
	if err != nil {
		return err
	}
	p, err := places(c, m, nil, snapshotCompressFlag)
	if err != nil {
		return err
	}
	l := p.local
	e, err := m.SaveSnapshot(c.ctx, &SnapshotSave{DataDir: l.DataDir, Dir: p.dir, Name: name, Node: l.NodeName,
		Compress: l.SnapshotCompress})
	if err != nil {
		return err
	}
	if _, err := problem.Show(c.out, "%s\n", e.Path); err != nil {
		return err
	}
	return p.upload(c.ctx, c.out, e.Path)
}

func listSnapshots(c *call, m Modes) error {
	p, err := places(c, m, nil)
	if err != nil {
		return err
	}
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	// What is here is printed even if the storage elsewhere fails.
	list, err := p.list(c.ctx)
	if format == "json" {
		return errors.Join(err, encode(c.out, append([]archive.Entry{}, list...)))
	}
	return errors.Join(err, writeSnapshots(c.out, list))
}

func writeSnapshots(out io.Writer, list []archive.Entry) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tLOCATION\tCREATED\tSIZE\tREVISION\tNODE\tKUBERNETES") // Flush reports errors
	for _, e := range list {
		if e.Err != nil {
			problem.Show(w, "%s\t%s\tunreadable: %v\t%d\t\t\t\n", e.Name, e.Location, e.Err, e.Size)
			continue
		}
		m := e.Manifest
		problem.Show(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", e.Name, e.Location, m.Created.Format(time.RFC3339), e.Size,
			m.Revision, m.Node, m.Kubernetes)
	}
	return w.Flush()
}

func deleteSnapshots(c *call, m Modes) error {
	p, err := places(c, m, nil)
	if err != nil {
		return err
	}
	store, err := p.store(c.ctx)
	if err != nil {
		return err
	}
	for _, name := range c.args {
		if err := p.remove(c.ctx, c.out, store, name); err != nil {
			return err
		}
	}
	return nil
}

func pruneSnapshots(c *call, m Modes) error {
	name, err := snapshotName(c)
	if err != nil {
		return err
	}
	p, err := places(c, m, nil, snapshotRetentionFlag, s3RetentionFlag)
	if err != nil {
		return err
	}
	l := p.local
	if l.SnapshotRetention < 1 {
		return &problem.Input{Source: "--" + snapshotRetentionFlag, Value: strconv.Itoa(l.SnapshotRetention),
			Want: "how many to keep, at least 1"}
	}
	if p.open != nil && l.S3.Retention < 1 {
		return &problem.Input{Source: "--" + s3RetentionFlag, Value: strconv.Itoa(l.S3.Retention),
			Want: "how many to keep, at least 1"}
	}
	node, err := instance.ChooseNodeName(l.NodeName, false, instance.NodeIDFile)
	if err != nil {
		return err
	}
	store, err := p.store(c.ctx)
	if err != nil {
		return err
	}
	prefix := archive.Prefix(name, node)
	pruned, err := p.dir.Prune(prefix, l.SnapshotRetention)
	if store != nil {
		remote, remoteErr := store.Prune(c.ctx, prefix, l.S3.Retention)
		for _, name := range remote {
			pruned = append(pruned, store.URL(name))
		}
		err = errors.Join(err, remoteErr)
	}
	for _, name := range pruned {
		if _, err := problem.Show(c.out, "deleted %s\n", name); err != nil {
			return err
		}
	}
	return err
}

func restoreSnapshot(c *call, m Modes) (err error) {
	snap := c.arg(0)
	var overrides []string
	remote := strings.HasPrefix(snap, s3Scheme)
	if remote {
		bucket, folder, name, err := parseS3(snap)
		if err != nil {
			return err
		}
		snap, overrides = name, []string{"--etcd-s3=true", "--etcd-s3-bucket=" + bucket, "--etcd-s3-folder=" + folder}
	}
	p, err := places(c, m, overrides)
	if err != nil {
		return err
	}
	l := p.local
	var path string
	named := !strings.ContainsRune(snap, filepath.Separator)
	if remote || p.open != nil && named && !l.S3.InSecret() {
		var release func() error
		if path, release, err = p.fetch(c.ctx, snap); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
	} else if path, err = p.localOnly(snap); err != nil {
		return err
	}
	done, err := m.RestoreSnapshot(c.ctx,
		&SnapshotRestore{DataDir: l.DataDir, Path: path, OtherCluster: c.Bool("other-cluster")})
	if err != nil {
		return err
	}
	s := done.Manifest
	if _, err := problem.Show(c.out, "restored %s into %s: taken on %s at %s, revision %d, Kubernetes %s\n",
		filepath.Base(path), l.DataDir, s.Node, s.Created.Format(time.RFC3339), s.Revision, s.Kubernetes); err != nil {
		return err
	}
	if done.Kept != "" {
		if _, err := problem.Show(c.out, "what was there is kept in %s\n", done.Kept); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(c.out, "start the server now")
	return err
}
