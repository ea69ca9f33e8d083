package kubeconfig

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/clientcmd/api/latest"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("content of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	opts := Options{
		Server: "https://192.0.2.1:6443", CAFile: file("ca"), CertFile: file("cert"), KeyFile: file("key"),
		Group: strconv.Itoa(os.Getgid()),
	}
	for _, embed := range []bool{true, false} {
		opts.Path, opts.Embed = filepath.Join(dir, "made", "kubeconfig"), embed
		if err := Write(opts); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(opts.Path)
		if err != nil {
			t.Fatal(err)
		}
		obj, err := runtime.Decode(latest.Codec, data)
		if err != nil {
			t.Fatal(err)
		}
		cfg := obj.(*api.Config)
		context := cfg.Contexts[cfg.CurrentContext]
		cluster, auth := cfg.Clusters[context.Cluster], cfg.AuthInfos[context.AuthInfo]
		if cluster.Server != opts.Server {
			t.Errorf("server %q", cluster.Server)
		}
		if embed && (string(cluster.CertificateAuthorityData) != "content of ca" ||
			string(auth.ClientCertificateData) != "content of cert" ||
			string(auth.ClientKeyData) != "content of key" || auth.ClientKey != "") {
			t.Errorf("embedded wrongly: %s", data)
		}
		if !embed && (cluster.CertificateAuthority != opts.CAFile || auth.ClientCertificate != opts.CertFile ||
			auth.ClientKey != opts.KeyFile || auth.ClientKeyData != nil) {
			t.Errorf("named wrongly: %s", data)
		}
		if fi, err := os.Stat(opts.Path); err != nil || fi.Mode() != DefaultMode {
			t.Errorf("mode %v, %v", fi.Mode(), err)
		}
	}
	opts.Group, opts.GroupSource = "no-such-group", "--write-kubeconfig-group"
	var in *problem.Input
	if err := Write(opts); !errors.As(err, &in) || in.Source != opts.GroupSource {
		t.Errorf("unknown group: %v", err)
	}
}

func TestParseMode(t *testing.T) {
	for text, want := range map[string]os.FileMode{"": 0o600, "644": 0o644, "0640": 0o640} {
		if got, err := ParseMode("--m", text); err != nil || got != want {
			t.Errorf("ParseMode(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "888", "777", "44444", "000", "-1"} {
		var in *problem.Input
		if _, err := ParseMode("--m", text); !errors.As(err, &in) {
			t.Errorf("ParseMode(%q) = %v", text, err)
		}
	}
}
