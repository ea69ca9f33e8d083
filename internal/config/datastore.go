package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/a4s-io/a4s/internal/dsn"
)

// datastore checks the settings of the datastore. The endpoint is never part
// of an error: it can have a password in it.
func (c *serverChecker) datastore() {
	s := c.server
	e, err := dsn.Parse(s.DatastoreEndpoint)
	if err != nil {
		c.fail("datastore-endpoint", "", err, dsn.Want)
		return
	}
	files := map[string]string{"datastore-cafile": s.DatastoreCAFile, "datastore-certfile": s.DatastoreCertFile,
		"datastore-keyfile": s.DatastoreKeyFile}
	for setting, file := range files {
		switch {
		case file == "":
		case e.Kind == dsn.Embedded || e.Kind == dsn.SQLite:
			c.fail(setting, file, fmt.Errorf("the datastore is %s", e.Kind.Title()),
				"nothing, or a --datastore-endpoint that is reached over the network")
		case e.Kind == dsn.Etcd && strings.HasPrefix(e.URLs[0], "http:"):
			c.fail(setting, file, errors.New("the etcd is reached without TLS"), "https:// in --datastore-endpoint")
		default:
			c.absolute(setting, file)
			c.file(setting, file)
		}
	}
	if (s.DatastoreCertFile == "") != (s.DatastoreKeyFile == "") {
		missing := "datastore-certfile"
		if s.DatastoreKeyFile == "" {
			missing = "datastore-keyfile"
		}
		c.fail(missing, "", ErrNoValue, "--datastore-certfile and --datastore-keyfile together")
	}
	if e.Kind != dsn.Embedded {
		c.onlyEmbedded(e)
	}
	if e.Kind != dsn.Embedded && e.Kind != dsn.Etcd && s.ServiceGroupID != "" {
		c.fail("service-group-id", s.ServiceGroupID,
			fmt.Errorf("the datastore is %s, which one server has", e.Kind.Title()),
			"nothing, or embedded etcd, or an etcd as --datastore-endpoint")
	}
}

// withoutMember checks a server that uses the embedded etcd of others.
func (c *serverChecker) withoutMember() {
	s := c.server
	if !s.DisableEtcd {
		return
	}
	if len(s.JoinURLs) == 0 {
		c.fail("disable-etcd", "true", errors.New("this server would have no datastore"),
			"--server as well, with servers that have embedded etcd")
	}
	for _, f := range []struct {
		setting string
		set     bool
		want    string
	}{
		{"cluster-init", s.ClusterInit, "one of the two: --cluster-init begins an embedded etcd"},
		{"datastore-endpoint", s.DatastoreEndpoint != "",
			"one of the two: with a datastore of yours no server has a member"},
		{"cluster-reset", s.ClusterReset, "--cluster-reset on a server that has a member"},
		{"etcd-arg", len(s.EtcdArgs) > 0, "--etcd-arg on servers that have a member"},
		{"etcd-s3", s.EtcdS3.Enabled, "--etcd-s3 on servers that have a member, which take the snapshots"},
	} {
		if f.set {
			c.fail("disable-etcd", "true", fmt.Errorf("%s is set", c.source(f.setting)), f.want)
		}
	}
}

// onlyEmbedded refuses what is set for an etcd that is not there.
func (c *serverChecker) onlyEmbedded(e *dsn.Endpoint) {
	s := c.server
	refuse := func(setting, value, want string) {
		c.fail(setting, value, fmt.Errorf("the datastore is %s, not embedded etcd", e), want)
	}
	for _, arg := range s.EtcdArgs {
		refuse("etcd-arg", arg, "nothing, or no --datastore-endpoint")
	}
	normal, err := DefaultServer()
	if err != nil {
		c.errs = append(c.errs, err)
		return
	}
	const backUp = "nothing: take backups with the tools of the datastore"
	if s.EtcdSnapshotScheduleCron != normal.EtcdSnapshotScheduleCron {
		refuse("etcd-snapshot-schedule-cron", s.EtcdSnapshotScheduleCron, backUp)
	}
	if s.EtcdSnapshotRetention != normal.EtcdSnapshotRetention {
		refuse("etcd-snapshot-retention", fmt.Sprint(s.EtcdSnapshotRetention), backUp)
	}
	if s.EtcdSnapshotName != normal.EtcdSnapshotName {
		refuse("etcd-snapshot-name", s.EtcdSnapshotName, backUp)
	}
	if s.EtcdSnapshotCompress {
		refuse("etcd-snapshot-compress", "", backUp)
	}
	if s.EtcdS3.Enabled {
		refuse("etcd-s3", "", backUp)
	}
}
