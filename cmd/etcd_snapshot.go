package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/nodename"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/snapshot"
)

// SnapshotSave is what `a4s etcd-snapshot save` was asked for.
type SnapshotSave struct {
	DataDir string
	Dir     snapshot.Dir
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
	Manifest *snapshot.Manifest
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
			"tokens, keys. Keep it as safe as the server itself.",
		Subcommands: []*cli.Command{
			leaf(&cli.Command{
				Name:        "save",
				Usage:       "take a snapshot of the running server of this machine",
				ArgsUsage:   "[FLAGS]",
				Description: "The file is read back before it gets its name.",
				Flags: append(snapshotFlags(),
					&cli.StringFlag{Name: "name", Usage: "beginning of the `NAME`; node and time follow", Value: onDemand},
					&cli.BoolFlag{Name: snapshotCompressFlag, Aliases: []string{"snapshot-compress"}, Usage: "compress the snapshot"}),
				Action: func(c *cli.Context) error { return saveSnapshot(c, m) },
			}),
			leaf(&cli.Command{
				Name:      "list",
				Aliases:   []string{"ls"},
				Usage:     "list snapshots",
				ArgsUsage: "[FLAGS]",
				Flags: append(snapshotFlags(),
					&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORMAT`: table or json", Value: "table"}),
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
				Name:        "prune",
				Usage:       "delete the oldest snapshots of a name",
				ArgsUsage:   "[FLAGS]",
				Description: "Works on the snapshots of one name and of this node, and keeps the newest ones.",
				Flags: append(snapshotFlags(),
					&cli.StringFlag{Name: "name", Usage: "beginning of the `NAME`", Value: onDemand},
					&cli.IntFlag{Name: snapshotRetentionFlag, Aliases: []string{"snapshot-retention"}, Usage: "`NUMBER` of snapshots to keep", DefaultText: "that of the server"}),
				Action: pruneSnapshots,
			}),
			leaf(&cli.Command{
				Name:      "restore",
				Usage:     "replace the control plane of this machine, whose server is stopped",
				ArgsUsage: "NAME|PATH [FLAGS]",
				Description: "The whole file is checked before anything is changed, and the server directory that\n" +
					"is replaced is kept beside the new one. Start the server afterwards.",
				Flags: append(snapshotFlags(),
					&cli.BoolFlag{Name: "other-cluster", Usage: "allow a snapshot of another cluster than the one that is here"}),
				Action: func(c *cli.Context) error { return restoreSnapshot(c, m) },
			}),
		},
	})
}

func snapshotFlags() []cli.Flag {
	return append(localFlags(), &cli.StringFlag{Name: snapshotDirFlag, Aliases: []string{"dir"}, Usage: "directory of snapshots at `PATH`", DefaultText: "that of the server"})
}

// snapshotSettings reads the settings of a command with snapshotFlags.
func snapshotSettings(c *cli.Context, more ...string) (*config.Local, snapshot.Dir, error) {
	l, err := localSettings(c, append([]string{"config", "data-dir", snapshotDirFlag}, more...)...)
	if err != nil {
		return nil, "", err
	}
	return l, snapshot.Dir(l.SnapshotDir), nil
}

// snapshotName reads --name.
func snapshotName(c *cli.Context) (string, error) {
	name := c.String("name")
	if !snapshot.ValidName(name) {
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
	l, dir, err := snapshotSettings(c, snapshotCompressFlag)
	if err != nil {
		return err
	}
	e, err := m.SaveSnapshot(c.Context, &SnapshotSave{DataDir: l.DataDir, Dir: dir, Name: name, Node: l.NodeName, Compress: l.SnapshotCompress})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s\n", e.Path)
	return err
}

func listSnapshots(c *cli.Context) error {
	if err := wantArgs(c, 0, 0, "none"); err != nil {
		return err
	}
	_, dir, err := snapshotSettings(c)
	if err != nil {
		return err
	}
	format := c.String("output")
	if format != "table" && format != "json" {
		return &problem.Input{Source: "--output", Value: format, Want: "table or json"}
	}
	list, err := dir.List()
	if err != nil {
		return err
	}
	if format == "json" {
		enc := json.NewEncoder(c.App.Writer)
		enc.SetIndent("", "  ")
		return enc.Encode(append([]snapshot.Entry{}, list...))
	}
	return writeSnapshots(c.App.Writer, list)
}

func writeSnapshots(out io.Writer, list []snapshot.Entry) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tCREATED\tSIZE\tREVISION\tNODE\tKUBERNETES") // Flush reports errors
	for _, e := range list {
		if e.Err != nil {
			fmt.Fprintf(w, "%s\tunreadable: %v\t%d\t\t\t\n", e.Name, e.Err, e.Size)
			continue
		}
		m := e.Manifest
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\n", e.Name, m.Created.Format(time.RFC3339), e.Size, m.Revision, m.Node, m.Kubernetes)
	}
	return w.Flush()
}

func deleteSnapshots(c *cli.Context) error {
	if err := wantArgs(c, 1, -1, `the names of snapshots, as "a4s etcd-snapshot list" prints them`); err != nil {
		return err
	}
	_, dir, err := snapshotSettings(c)
	if err != nil {
		return err
	}
	for _, name := range c.Args().Slice() {
		if err := dir.Delete(name); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c.App.Writer, "deleted %s\n", name); err != nil {
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
	l, dir, err := snapshotSettings(c, snapshotRetentionFlag)
	if err != nil {
		return err
	}
	if l.SnapshotRetention < 1 {
		return &problem.Input{Source: "--" + snapshotRetentionFlag, Value: strconv.Itoa(l.SnapshotRetention), Want: "how many to keep, at least 1"}
	}
	node, err := nodename.Choose(l.NodeName, false, nodename.IDFile)
	if err != nil {
		return err
	}
	pruned, err := dir.Prune(snapshot.Prefix(name, node), l.SnapshotRetention)
	for _, name := range pruned {
		if _, err := fmt.Fprintf(c.App.Writer, "deleted %s\n", name); err != nil {
			return err
		}
	}
	return err
}

func restoreSnapshot(c *cli.Context, m Modes) error {
	if err := wantArgs(c, 1, 1, `one snapshot, by the name that "a4s etcd-snapshot list" prints or by its path`); err != nil {
		return err
	}
	l, dir, err := snapshotSettings(c)
	if err != nil {
		return err
	}
	path, err := dir.Find(c.Args().First())
	if err != nil {
		return err
	}
	done, err := m.RestoreSnapshot(c.Context, &SnapshotRestore{DataDir: l.DataDir, Path: path, OtherCluster: c.Bool("other-cluster")})
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
