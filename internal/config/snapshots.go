package config

import (
	"errors"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"
)

// snapshotDirName is the directory of snapshots in the data directory. It is
// not in the server directory, which a restore replaces.
const snapshotDirName = "snapshots"

func (c *serverChecker) snapshots() {
	s := c.server
	if _, err := cron.ParseStandard(s.EtcdSnapshotScheduleCron); err != nil {
		c.fail("etcd-snapshot-schedule-cron", s.EtcdSnapshotScheduleCron, err,
			`five fields of cron such as "0 */12 * * *", or "@every 6h"`)
	}
	if s.EtcdSnapshotRetention < 0 {
		c.bad("etcd-snapshot-retention", strconv.Itoa(s.EtcdSnapshotRetention), "a number from 1, or 0 to keep all")
	}
	if !ValidSnapshotName(s.EtcdSnapshotName) {
		c.bad("etcd-snapshot-name", s.EtcdSnapshotName, "letters, digits, dots, dashes and underscores")
	}
	c.snapshotDir(s.EtcdSnapshotDir, s.Agent.DataDir)
	c.s3(&s.EtcdS3)
}

// snapshotDir checks that a restore does not move the snapshots away together
// with what it replaces.
func (c *checker) snapshotDir(dir, dataDir string) {
	c.absolute("etcd-snapshot-dir", dir)
	rel, err := filepath.Rel(filepath.Join(dataDir, "server"), dir)
	if dir != "" && err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		c.fail("etcd-snapshot-dir", dir, errors.New("it is in the server directory, which a restore replaces"),
			"another directory")
	}
}

var snapshotName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// ValidSnapshotName reports whether a snapshot may have this name.
func ValidSnapshotName(name string) bool { return len(name) <= 128 && snapshotName.MatchString(name) }
