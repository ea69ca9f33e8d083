package config

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

func loadS3(t *testing.T, args ...string) (*EtcdS3, []string, error) {
	t.Helper()
	s, warnings, err := LoadServer(Source{Args: append([]string{"--etcd-s3", "--etcd-s3-config-secret=s3"}, args...),
		DefaultFile: "/nonexistent"})
	if err != nil {
		return nil, nil, err
	}
	return &s.EtcdS3, warnings, nil
}

// TestASecretOrFlags: the Secret has all settings of S3, or none if another is given.
func TestASecretOrFlags(t *testing.T) {
	s, warnings, err := loadS3(t, "--etcd-s3-retention=9", "--etcd-s3-region=us-east-1") // which is the default
	if err != nil || !s.InSecret() || len(warnings) > 0 {
		t.Errorf("%v, %q, %v; want those of the Secret", s, warnings, err)
	}
	s, warnings, err = loadS3(t, "--etcd-s3-bucket=b", "--etcd-s3-access-key=AK", "--etcd-s3-secret-key=SK")
	if err != nil || s.InSecret() || len(warnings) != 1 ||
		!strings.Contains(warnings[0], "--etcd-s3-config-secret: ignored") {
		t.Errorf("%v, %q, %v; want a warning that the Secret is not used", s, warnings, err)
	}
	// Else nobody understands why the bucket of the Secret is not known.
	var in *problem.Input
	_, _, err = loadS3(t, "--etcd-s3-access-key=AK", "--etcd-s3-secret-key=SK")
	if !errors.As(err, &in) || in.Source != "--etcd-s3-bucket" ||
		!strings.Contains(in.Want, "all settings or none, and --etcd-s3-access-key is given") {
		t.Errorf("%v", err)
	}
	if _, warnings, err := LoadServer(Source{Args: []string{"--etcd-s3-config-secret=s3", "--etcd-s3-bucket=b"},
		DefaultFile: "/nonexistent"}); err != nil || len(warnings) > 0 {
		t.Errorf("without --etcd-s3: %q, %v", warnings, err)
	}
}

// TestSettingsOfASecret: its keys are the names of the flags, as in k3s.
func TestSettingsOfASecret(t *testing.T) {
	given := &EtcdS3{Enabled: true, ConfigSecret: "s3", Retention: 9, Endpoint: "ignored", Bucket: "ignored"}
	whole := map[string][]byte{
		"etcd-s3-endpoint": []byte("https://h:9000/"), "etcd-s3-endpoint-ca": []byte("CA one\n"),
		"etcd-s3-endpoint-ca-name": []byte("cas"), "etcd-s3-skip-ssl-verify": []byte("false"),
		"etcd-s3-access-key": []byte("AK\n"), "etcd-s3-secret-key": []byte("s3cret"),
		"etcd-s3-session-token": []byte("t0ken"), "etcd-s3-bucket": []byte("b"),
		"etcd-s3-bucket-lookup-type": []byte("path"), "etcd-s3-region": []byte("r"),
		"etcd-s3-folder": []byte("/f/"), "etcd-s3-insecure": []byte("false"), "etcd-s3-timeout": []byte("1m"),
		"etcd-s3-proxy": []byte("http://u:s3cret@h:3128"), "note": []byte("mine"),
	}
	got, err := given.OfSecret(whole, "CA two")
	want := EtcdS3{Enabled: true, ConfigSecret: "s3", Retention: 9, Endpoint: "h:9000",
		EndpointCAs: "CA two\nCA one", AccessKey: "AK", SecretKey: "s3cret", SessionToken: "t0ken", Bucket: "b",
		BucketLookup: "path", Region: "r", Folder: "f", Timeout: "1m", Proxy: "http://u:s3cret@h:3128", ofSecret: true}
	if err != nil || *got != want || got.InSecret() {
		t.Fatalf("%v: the settings are others", err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if out := fmt.Sprintf(format, got); strings.Contains(out, "s3cret") || strings.Contains(out, "t0ken") {
			t.Errorf("%s prints %s", format, out)
		}
	}
	// What is empty is not set, and the defaults are those of the flags.
	got, err = given.OfSecret(map[string][]byte{"etcd-s3-bucket": []byte("b"), "etcd-s3-endpoint": nil,
		"etcd-s3-proxy": nil})
	if err != nil || got.Endpoint != "s3.amazonaws.com" || got.Region != "us-east-1" || got.Timeout != "5m" {
		t.Errorf("%v, %v", got, err)
	}
	for name, tc := range map[string]struct{ key, value, bad string }{
		"no bucket":        {"etcd-s3-bucket", "", "etcd-s3-bucket"},
		"no access key":    {"etcd-s3-access-key", "", "etcd-s3-access-key"},
		"no secret key":    {"etcd-s3-secret-key", "", "etcd-s3-secret-key"},
		"not a truth":      {"etcd-s3-insecure", "s3cret", "etcd-s3-insecure"},
		"not a time":       {"etcd-s3-timeout", "soon", "etcd-s3-timeout"},
		"CA without TLS":   {"etcd-s3-insecure", "true", "etcd-s3-insecure"},
		"no URL":           {"etcd-s3-proxy", "s3cret", "etcd-s3-proxy"},
		"a slip":           {"etcd-s3-foldre", "s3cret", "etcd-s3-foldre"},
		"another Secret":   {"etcd-s3-config-secret", "x", "etcd-s3-config-secret"},
		"whether it is on": {"etcd-s3", "false", "etcd-s3"},
		"how many":         {"etcd-s3-retention", "1", "etcd-s3-retention"},
	} {
		data := maps.Clone(whole)
		data[tc.key] = []byte(tc.value)
		if name == "CA without TLS" {
			data["etcd-s3-endpoint"] = []byte("h")
		}
		_, err := given.OfSecret(data)
		var in *problem.Input
		if !errors.As(err, &in) || in.Source != `Secret kube-system/s3: key "`+tc.bad+`"` ||
			strings.Contains(err.Error(), "s3cret") || strings.Contains(in.Want, "AWS_") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
