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
	return leaf(&cli.Command{
		Name:  "etcd-snapshot",
		Usage: "save and restore the control plane",
		Description: "A snapshot holds the datastore and what else a server needs to start: certificates,\n" +
			"tokens, keys. Keep it as safe as the server itself. Settings of S3 storage are those of the\n" +
			"server of this machine unless flags say otherwise; --etcd-s3=false leaves it out. Their flags\n" +
			"have shorter names as well, --s3, --s3-bucket and so on.",
		Subcommands: []*cli.Command{
			leaf(&cli.Command{
				Name:      "save",
				Usage:     "take a snapshot of the running server of this machine",
				ArgsUsage: "[FLAGS]",
				Description: "The file is read back before it gets its name, " +
					"and a copy in S3 storage before it counts.\n" +
					"If the copy fails the file is kept and the exit code is 1.",
				Flags: append(snapshotFlags(),
					&cli.StringFlag{Name: "name",
						Usage: "beginning of the `NAME`; node and time follow", Value: onDemand},
					&cli.BoolFlag{Name: snapshotCompressFlag, Aliases: []string{"snapshot-compress"},
						Usage: "compress the snapshot"}),
				Action: func(c *cli.Context) error { return saveSnapshot(c, m) },
			}),
			leaf(&cli.Command{
				Name:      "list",
				Aliases:   []string{"ls"},
				Usage:     "list snapshots",
				ArgsUsage: "[FLAGS]",
				Flags: append(snapshotFlags(),
					outputFlag()),
				Action: listSnapshots,
			}),
			leaf(&cli.Command{
				Name:      "delete",
				Usage:     "delete snapshots",
				ArgsUsage: "NAME... [FLAGS]",
				Flags:     snapshotFlags(),
				Action:    deleteSnapshots,
			}),
			leaf(&cli.Command{
				Name:      "prune",
				Usage:     "delete the oldest snapshots of a name",
				ArgsUsage: "[FLAGS]",
				Description: "Works on the snapshots of one name and of this node, " +
					"and keeps the newest ones in each place.",
				Flags: append(snapshotFlags(),
					&cli.StringFlag{Name: "name", Usage: "beginning of the `NAME`", Value: onDemand},
					&cli.IntFlag{Name: snapshotRetentionFlag, Aliases: []string{"snapshot-retention"},
						Usage: "`NUMBER` of snapshots to keep", DefaultText: "that of the server"},
					&cli.IntFlag{Name: s3RetentionFlag, Aliases: []string{"s3-retention"},
						Usage: "`NUMBER` of snapshots to keep in S3", DefaultText: "that of the server"}),
				Action: pruneSnapshots,
			}),
			leaf(&cli.Command{
				Name:      "restore",
				Usage:     "replace the control plane of this machine, whose server is stopped",
				ArgsUsage: "NAME|PATH|s3://BUCKET/FOLDER/NAME [FLAGS]",
				Description: "The whole file is checked before anything is changed, and the server directory that\n" +
					"is replaced is kept beside the new one. Start the server afterwards. With --etcd-s3 a NAME\n" +
					"is downloaded first.",
				Flags: append(snapshotFlags(),
					&cli.BoolFlag{Name: "other-cluster",
						Usage: "allow a snapshot of another cluster than the one that is here"}),
				Action: func(c *cli.Context) error { return restoreSnapshot(c, m) },
			}),
		},
	})
}

func snapshotFlags() []cli.Flag {
	flags := append(localFlags(), &cli.StringFlag{Name: snapshotDirFlag, Aliases: []string{"dir"},
		Usage: "directory of snapshots at `PATH`", DefaultText: "that of the server"})
	return append(flags, s3Flags()...)
}

// snapshotName reads --name.
func snapshotName(c *cli.Context) (string, error) {
	name := c.String("name")
	if !config.ValidSnapshotName(name) {
		return "", &problem.Input{Source: "--name", Value: name, Want: "letters, digits, dots, dashes and underscores"}
	}
	return name, nil
}

func saveSnapshot(c *cli.Context, m Modes) error {
	if err := wantArgs(c, 0, 0, "none"); err != nil {
		return err
	}
	name, err := snapshotName(c)
	if err != nil {
		return err
	}
	p, err := places(c, nil, snapshotCompressFlag)
	if err != nil {
		return err
	}
	l := p.local
	e, err := m.SaveSnapshot(c.Context, &SnapshotSave{DataDir: l.DataDir, Dir: p.dir, Name: name, Node: l.NodeName,
		Compress: l.SnapshotCompress})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.App.Writer, "%s\n", e.Path); err != nil {
		return err
	}
	return p.upload(c.Context, c.App.Writer, e.Path)
}

func listSnapshots(c *cli.Context) error {
	if err := wantArgs(c, 0, 0, "none"); err != nil {
		return err
	}
	p, err := places(c, nil)
	if err != nil {
		return err
	}
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	// What is here is printed even if the storage elsewhere fails.
	list, err := p.list(c.Context)
	if format == "json" {
		return errors.Join(err, encode(c.App.Writer, append([]archive.Entry{}, list...)))
	}
	return errors.Join(err, writeSnapshots(c.App.Writer, list))
}

func writeSnapshots(out io.Writer, list []archive.Entry) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tLOCATION\tCREATED\tSIZE\tREVISION\tNODE\tKUBERNETES") // Flush reports errors
	for _, e := range list {
		if e.Err != nil {
			fmt.Fprintf(w, "%s\t%s\tunreadable: %v\t%d\t\t\t\n", e.Name, e.Location, e.Err, e.Size)
			continue
		}
		m := e.Manifest
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", e.Name, e.Location, m.Created.Format(time.RFC3339), e.Size,
			m.Revision, m.Node, m.Kubernetes)
	}
	return w.Flush()
}

func deleteSnapshots(c *cli.Context) error {
	if err := wantArgs(c, 1, -1, `the names of snapshots, as "a4s etcd-snapshot list" prints them`); err != nil {
		return err
	}
	p, err := places(c, nil)
	if err != nil {
		return err
	}
	for _, name := range c.Args().Slice() {
		if err := p.remove(c.Context, c.App.Writer, name); err != nil {
			return err
		}
	}
	return nil
}

func pruneSnapshots(c *cli.Context) error {
	if err := wantArgs(c, 0, 0, "none"); err != nil {
		return err
	}
	name, err := snapshotName(c)
	if err != nil {
		return err
	}
	p, err := places(c, nil, snapshotRetentionFlag, s3RetentionFlag)
	if err != nil {
		return err
	}
	l := p.local
	if l.SnapshotRetention < 1 {
		return &problem.Input{Source: "--" + snapshotRetentionFlag, Value: strconv.Itoa(l.SnapshotRetention),
			Want: "how many to keep, at least 1"}
	}
	if p.store != nil && l.S3.Retention < 1 {
		return &problem.Input{Source: "--" + s3RetentionFlag, Value: strconv.Itoa(l.S3.Retention),
			Want: "how many to keep, at least 1"}
	}
	node, err := instance.ChooseNodeName(l.NodeName, false, instance.NodeIDFile)
	if err != nil {
		return err
	}
	prefix := archive.Prefix(name, node)
	pruned, err := p.dir.Prune(prefix, l.SnapshotRetention)
	if p.store != nil {
		remote, remoteErr := p.store.Prune(c.Context, prefix, l.S3.Retention)
		for _, name := range remote {
			pruned = append(pruned, p.store.URL(name))
		}
		err = errors.Join(err, remoteErr)
	}
	for _, name := range pruned {
		if _, err := fmt.Fprintf(c.App.Writer, "deleted %s\n", name); err != nil {
			return err
		}
	}
	return err
}

func restoreSnapshot(c *cli.Context, m Modes) (err error) {
	if err := wantArgs(c, 1, 1, `one snapshot, by the name that "a4s etcd-snapshot list" prints, `+
		`by its path or by its s3:// URL`); err != nil {
		return err
	}
	snap := c.Args().First()
	var overrides []string
	remote := strings.HasPrefix(snap, s3Scheme)
	if remote {
		bucket, folder, name, err := parseS3(snap)
		if err != nil {
			return err
		}
		snap, overrides = name, []string{"--etcd-s3=true", "--etcd-s3-bucket=" + bucket, "--etcd-s3-folder=" + folder}
	}
	p, err := places(c, overrides)
	if err != nil {
		return err
	}
	l := p.local
	var path string
	if remote || p.store != nil && !strings.ContainsRune(snap, filepath.Separator) {
		var release func() error
		if path, release, err = p.fetch(c.Context, snap); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
	} else if path, err = p.dir.Find(snap); err != nil {
		return err
	}
	done, err := m.RestoreSnapshot(c.Context,
		&SnapshotRestore{DataDir: l.DataDir, Path: path, OtherCluster: c.Bool("other-cluster")})
	if err != nil {
		return err
	}
	s := done.Manifest
	if _, err := fmt.Fprintf(c.App.Writer, "restored %s into %s: taken on %s at %s, revision %d, Kubernetes %s\n",
		filepath.Base(path), l.DataDir, s.Node, s.Created.Format(time.RFC3339), s.Revision, s.Kubernetes); err != nil {
		return err
	}
	if done.Kept != "" {
		if _, err := fmt.Fprintf(c.App.Writer, "what was there is kept in %s\n", done.Kept); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(c.App.Writer, "start the server now")
	return err
}
