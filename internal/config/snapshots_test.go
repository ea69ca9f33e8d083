package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestSnapshotSettings(t *testing.T) {
	for _, tc := range []struct{ args, bad string }{
		{"", ""},
		{"--etcd-snapshot-schedule-cron=@every 1h --etcd-snapshot-retention=0 --etcd-snapshot-dir=/backup", ""},
		{"--etcd-snapshot-dir=/d/snap --data-dir=/d", ""},
		{"--etcd-snapshot-schedule-cron=0 0 12 * * *", "etcd-snapshot-schedule-cron"},
		{"--etcd-snapshot-schedule-cron=often", "etcd-snapshot-schedule-cron"},
		{"--etcd-snapshot-retention=-1", "etcd-snapshot-retention"},
		{"--etcd-snapshot-name=a/b", "etcd-snapshot-name"},
		{"--etcd-snapshot-dir=snap", "etcd-snapshot-dir"},
		{"--etcd-snapshot-dir=/d/server/db/snapshots --data-dir=/d", "etcd-snapshot-dir"},
	} {
		var args []string
		for arg := range strings.SplitSeq(tc.args, " --") {
			if arg != "" {
				args = append(args, "--"+strings.TrimPrefix(arg, "--"))
			}
		}
		s, _, err := LoadServer(Source{Args: args, DefaultFile: "/nonexistent"})
		var in *problem.Input
		switch {
		case tc.bad == "" && err != nil:
			t.Errorf("%s: %v", tc.args, err)
		case tc.bad == "" && s.EtcdSnapshotDir == "":
			t.Errorf("%s: no directory", tc.args)
		case tc.bad != "" && (!errors.As(err, &in) || in.Source != "--"+tc.bad):
			t.Errorf("%s: %v, want a problem of %s", tc.args, err, tc.bad)
		}
	}
}
