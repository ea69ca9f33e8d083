package config

import (
	"errors"
	"fmt"
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

func TestS3Settings(t *testing.T) {
	const keys = "--etcd-s3-access-key=AK --etcd-s3-secret-key=s3cret --etcd-s3-bucket=b "
	for _, tc := range []struct{ args, bad string }{
		{"--etcd-s3-endpoint=ftp://x --etcd-s3-timeout=x", ""}, // it is off
		{"--etcd-s3 " + keys, ""},
		{"--etcd-s3 --etcd-s3-bucket=b", ""}, // the role of a machine on AWS
		{"--etcd-s3 --etcd-s3-endpoint=https://h:9000/ " + keys, ""},
		{"--etcd-s3 --etcd-s3-endpoint=http://h:9000 --etcd-s3-insecure " + keys, ""},
		{"--etcd-s3 --etcd-s3-endpoint=http://h:9000 " + keys, "--etcd-s3-endpoint"},
		{"--etcd-s3 --etcd-s3-endpoint=https://h --etcd-s3-insecure " + keys, "--etcd-s3-endpoint"},
		{"--etcd-s3 --etcd-s3-endpoint=https://AK:s3cret@h " + keys, "--etcd-s3-endpoint"},
		{"--etcd-s3 --etcd-s3-endpoint=h/b " + keys, "--etcd-s3-endpoint"},
		{"--etcd-s3 --etcd-s3-endpoint=h --etcd-s3-bucket=b", "--etcd-s3-access-key"},
		{"--etcd-s3 --etcd-s3-access-key=AK --etcd-s3-bucket=b", "--etcd-s3-secret-key"},
		{"--etcd-s3 --etcd-s3-secret-key=s3cret --etcd-s3-bucket=b", "--etcd-s3-access-key"},
		{"--etcd-s3 --etcd-s3-access-key=AK --etcd-s3-secret-key=s3cret", "--etcd-s3-bucket"},
		{"--etcd-s3 " + keys + "--etcd-s3-bucket=b/f", "--etcd-s3-bucket"},
		{"--etcd-s3 " + keys + "--etcd-s3-bucket-lookup-type=host", "--etcd-s3-bucket-lookup-type"},
		{"--etcd-s3 " + keys + "--etcd-s3-timeout=0s", "--etcd-s3-timeout"},
		{"--etcd-s3 " + keys + "--etcd-s3-retention=-1", "--etcd-s3-retention"},
		{"--etcd-s3 " + keys + "--etcd-s3-endpoint-ca=/nonexistent", "--etcd-s3-endpoint-ca"},
		{"--etcd-s3 " + keys + "--etcd-s3-insecure --etcd-s3-skip-ssl-verify", "--etcd-s3-insecure"},
		{"--etcd-s3 --datastore-endpoint=sqlite " + keys, "--etcd-s3"},
		{"--etcd-s3 --etcd-s3-proxy=none " + keys, ""},
		{"--etcd-s3 --etcd-s3-proxy=http://u:s3cret@h:3128 " + keys, ""},
		{"--etcd-s3 --etcd-s3-proxy=u:s3cret@h:3128 " + keys, "--etcd-s3-proxy"},
		{"--etcd-s3 --etcd-s3-proxy=ftp://u:s3cret@h " + keys, "--etcd-s3-proxy"},
		{"--etcd-s3 --etcd-s3-config-secret=s3", ""},
		{"--etcd-s3 --etcd-s3-config-secret=s3 --etcd-s3-retention=9", ""},
		{"--etcd-s3 --etcd-s3-config-secret=s3 --etcd-s3-retention=-1", "--etcd-s3-retention"},
		{"--etcd-s3 --etcd-s3-config-secret=kube-system/s3", "--etcd-s3-config-secret"},
	} {
		s, _, err := LoadServer(Source{Args: strings.Fields(tc.args), DefaultFile: "/nonexistent"})
		var in *problem.Input
		switch {
		case tc.bad == "" && err != nil:
			t.Errorf("%s: %v", tc.args, err)
		case tc.bad != "" && (!errors.As(err, &in) || in.Source != tc.bad):
			t.Errorf("%s: %v, want a problem of %s", tc.args, err, tc.bad)
		case err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("%s: the error has the secret in it: %v", tc.args, err)
		case err == nil && s.EtcdS3.Enabled && strings.ContainsAny(s.EtcdS3.Endpoint, "/"):
			t.Errorf("%s: the endpoint is %q", tc.args, s.EtcdS3.Endpoint)
		}
	}
	// The environment as other clients of S3 know it; nothing secret is printed.
	s, _, err := LoadServer(Source{DefaultFile: "/nonexistent", LookupEnv: env(map[string]string{
		"A4S_ETCD_S3": "true", "A4S_ETCD_S3_BUCKET": "b", "A4S_ETCD_S3_FOLDER": "/f/", "AWS_ACCESS_KEY_ID": "AK",
		"AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_SESSION_TOKEN": "t0ken",
	})})
	if err != nil || s.EtcdS3.SecretKey != "s3cret" || s.EtcdS3.SessionToken != "t0ken" || s.EtcdS3.Folder != "f" {
		t.Fatalf("%#v, %v", s, err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if out := fmt.Sprintf(format, *s); strings.Contains(out, "s3cret") || strings.Contains(out, "t0ken") {
			t.Errorf("%s prints %s", format, out)
		}
	}
	if help := Help(ServerSettings(s)); strings.Contains(help, "s3cret") || strings.Contains(help, "t0ken") {
		t.Error("the help has a secret in it")
	}
}
