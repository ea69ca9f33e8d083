package archive

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/tests/charthost"
)

// hosted is a host with three versions of the chart web.
func hosted(t *testing.T, h *charthost.Host) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, version := range []string{"1.0.0", "1.1.0+build.2", "2.0.0"} {
		all[version] = charthost.Archive(t, "web", version, nil)
		h.Add("web", version, all[version])
	}
	return all
}

// TestSources: a chart is found wherever a HelmChart may say that it is.
func TestSources(t *testing.T) {
	plain, secured := charthost.New(t), charthost.NewTLS(t)
	archives := hosted(t, plain)
	hosted(t, secured)
	static := t.TempDir()
	if err := os.Mkdir(filepath.Join(static, "charts"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(static, "charts", "web.tgz"), archives["1.0.0"], 0o600); err != nil {
		t.Fatal(err)
	}
	wrapped := base64.StdEncoding.EncodeToString(archives["2.0.0"])
	wrapped = wrapped[:20] + "\n  " + wrapped[20:] + "\n"
	oci := func(rest, version string) Source {
		return Source{Chart: plain.Registry + "/charts/web" + rest, Version: version, PlainHTTP: true}
	}
	for what, c := range map[string]struct {
		source Source
		want   string
	}{
		"content":                   {Source{Content: wrapped, Chart: "other"}, "2.0.0"},
		"repository":                {Source{Repo: plain.URL, Chart: "web"}, "2.0.0"},
		"repository, slash":         {Source{Repo: plain.URL + "/", Chart: "web"}, "2.0.0"},
		"repository, version":       {Source{Repo: plain.URL, Chart: "web", Version: "1.0.0"}, "1.0.0"},
		"repository, range":         {Source{Repo: plain.URL, Chart: "web", Version: "^1.0.0"}, "1.1.0+build.2"},
		"repository, CA":            {Source{Repo: secured.URL, Chart: "web", CA: secured.CA}, "2.0.0"},
		"repository, not verified":  {Source{Repo: secured.URL, Chart: "web", InsecureSkipTLSVerify: true}, "2.0.0"},
		"URL":                       {Source{Chart: plain.URL + "/archives/web/1.0.0.tgz", Version: "9"}, "1.0.0"},
		"URL, CA":                   {Source{Chart: secured.URL + "/archives/web/1.0.0.tgz", CA: secured.CA}, "1.0.0"},
		"registry":                  {oci("", ""), "2.0.0"},
		"registry, version":         {oci("", "1.0.0"), "1.0.0"},
		"registry, plus in version": {oci("", "1.1.0+build.2"), "1.1.0+build.2"},
		"registry, range":           {oci("", "1.x"), "1.1.0+build.2"},
		"registry, tag":             {oci(":1.0.0", ""), "1.0.0"},
		"registry, digest":          {oci("@"+charthost.ManifestDigest(archives["1.0.0"]), ""), "1.0.0"},
		"registry, TLS":             {Source{Chart: secured.Registry + "/charts/web", CA: secured.CA}, "2.0.0"},
		"own file":                  {Source{Chart: "https://%{KUBERNETES_API}%/static/charts/web.tgz"}, "1.0.0"},
	} {
		got, err := New(static).Get(t.Context(), c.source)
		if err != nil || !bytes.Equal(got, archives[c.want]) {
			t.Errorf("%s: %d bytes, %v; want version %s", what, len(got), err, c.want)
		}
	}
}

// TestNoSources: what cannot be a chart, or is not there, is an error that says so.
func TestNoSources(t *testing.T) {
	plain, secured := charthost.New(t), charthost.NewTLS(t)
	hosted(t, plain)
	hosted(t, secured)
	static := filepath.Join(t.TempDir(), "static")
	if err := os.Mkdir(static, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(static, "..", "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../secret", filepath.Join(static, "link")); err != nil {
		t.Fatal(err)
	}
	closed := charthost.Closed(t)
	away := httptest.NewServer(http.RedirectHandler(closed+"/x.tgz?signature=hunter2", http.StatusFound))
	defer away.Close()
	const own = "https://%{KUBERNETES_API}%/static/"
	for what, c := range map[string]struct {
		source Source
		want   string
	}{
		"nothing":              {Source{}, "want spec.repo"},
		"a name alone":         {Source{Chart: "stable/web"}, "want spec.repo"},
		"a file":               {Source{Chart: "/etc/passwd"}, "want spec.repo"},
		"a file as URL":        {Source{Chart: "file:///etc/passwd"}, "want spec.repo"},
		"a file as repository": {Source{Chart: "web", Repo: "file:///etc"}, "want one of http or https"},
		"above the own files":  {Source{Chart: own + "../secret"}, "secret"},
		"a link out of them":   {Source{Chart: own + "link"}, own + "link"},
		"a registry as repo": {Source{Chart: "web", Repo: plain.Registry + "/charts"},
			"spec.chart: " + plain.Registry + "/charts/web"},
		"not base64":      {Source{Content: "%%%"}, "not base64"},
		"no such chart":   {Source{Repo: plain.URL, Chart: "none"}, "no such chart"},
		"no such version": {Source{Repo: plain.URL, Chart: "web", Version: "3.0.0"}, "no such chart"},
		"no such tag": {Source{Chart: plain.Registry + "/charts/web", Version: ">3", PlainHTTP: true},
			"could not locate"},
		"no such URL":         {Source{Chart: plain.URL + "/none.tgz"}, "404"},
		"nobody there":        {Source{Chart: charthost.Closed(t) + "/web.tgz"}, "refused"},
		"a stranger's TLS":    {Source{Repo: secured.URL, Chart: "web"}, "certificate"},
		"a CA that is none":   {Source{Repo: secured.URL, Chart: "web", CA: []byte("x")}, "want certificates in PEM"},
		"a registry with TLS": {Source{Chart: plain.Registry + "/charts/web"}, "HTTP response to HTTPS client"},
		"credentials not JSON": {Source{Chart: plain.Registry + "/charts/web", PlainHTTP: true,
			DockerConfig: []byte("x")}, "credentials"},
		"password in a message": {Source{Chart: "http://user:hunter2@" + plain.Address() + "/none.tgz"}, "404"},
		"password in a registry's": {Source{Chart: "oci://user:hunter2@" + plain.Address() + "/charts/web"},
			"want them in"},
		"password in no URL":      {Source{Chart: "https://user:hunter2/x@" + plain.Address() + "/x.tgz"}, "no URL"},
		"password in no base URL": {Source{Repo: "https://user:hunter2/x@" + plain.Address(), Chart: "x"}, "no URL"},
		"signature in a message":  {Source{Chart: plain.URL + "/none.tgz?signature=hunter2"}, "404"},
		"signature of a redirect": {Source{Chart: away.URL + "/x.tgz"}, "refused"},
	} {
		_, err := New(static).Get(t.Context(), c.source)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", what, err, c.want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the message has the password: %v", what, err)
		}
	}
	if _, err := New(static).Get(t.Context(), Source{}); !errors.Is(err, ErrSource) {
		t.Errorf("nothing: %v", err)
	}
}

// TestCredentials: they are sent to whom they are for.
func TestCredentials(t *testing.T) {
	user := Source{Username: "u", Password: "p"}
	host := func() *charthost.Host {
		h := charthost.New(t)
		hosted(t, h)
		h.Username, h.Password = "u", "p"
		return h
	}
	docker := func(h *charthost.Host) []byte {
		return fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, h.Address(),
			base64.StdEncoding.EncodeToString([]byte("u:p")))
	}
	at := func(s Source, repo, chart string) Source {
		s.Repo, s.Chart, s.PlainHTTP = repo, chart, true
		return s
	}
	own, other := host(), charthost.New(t)
	hosted(t, other)
	own.RefersTo(other.URL)
	whole := host()
	for what, c := range map[string]struct {
		source Source
		fails  bool
	}{
		"repository":          {at(user, whole.URL, "web"), false},
		"repository, without": {at(Source{}, whole.URL, "web"), true},
		"URL":                 {at(user, "", whole.URL+"/archives/web/1.0.0.tgz"), false},
		"registry":            {at(user, "", whole.Registry+"/charts/web"), false},
		"registry, dockerconfig": {at(Source{DockerConfig: docker(whole)}, "", whole.Registry+"/charts/web"),
			false},
		"registry, for another": {at(Source{DockerConfig: docker(other)}, "", whole.Registry+"/charts/web"),
			true},
		"archives at another host": {at(user, own.URL, "web"), false},
		"the same, and passed them": {at(Source{Username: "u", Password: "p", PassCredentials: true}, own.URL,
			"web"), false},
	} {
		before := len(other.Asked())
		if _, err := New("").Get(t.Context(), c.source); (err != nil) != c.fails {
			t.Errorf("%s: %v", what, err)
		}
		sent := slices.ContainsFunc(other.Asked()[before:], func(r string) bool { return strings.HasSuffix(r, " u") })
		if sent != c.source.PassCredentials {
			t.Errorf("%s: the other host got %q", what, other.Asked()[before:])
		}
	}
}

// TestRedirects: credentials are not sent to another port of the host, which Go's client does.
func TestRedirects(t *testing.T) {
	var sent string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
	}))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL+"/x.tgz", http.StatusFound))
	defer first.Close()
	for _, pass := range []bool{false, true} {
		s := Source{Chart: first.URL + "/x.tgz", Username: "u", Password: "p", PassCredentials: pass}
		if _, err := New("").Get(t.Context(), s); err != nil || (sent != "") != pass {
			t.Errorf("passed: %v: the other port got %q, %v", pass, sent, err)
		}
	}
}

// endless is a body that does not end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestDownloadsEnd: neither a body nor a registry makes more be read than a chart may have.
func TestDownloadsEnd(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/manifests/"):
			body := []byte(`{"schemaVersion":2,"layers":[{"mediaType":` +
				`"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":"sha256:` +
				strings.Repeat("0", 64) + `","size":99999999999}]}`)
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Write(body) //nolint:errcheck // the client is gone
		default:
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}
	}))
	defer server.Close()
	for what, s := range map[string]Source{
		"an archive": {Chart: server.URL + "/x.tgz"},
		"an index":   {Repo: server.URL, Chart: "x"},
		"a layer": {Chart: "oci://" + strings.TrimPrefix(server.URL, "http://") + "/charts/x", Version: "1.0.0",
			PlainHTTP: true},
	} {
		if _, err := New("").Get(t.Context(), s); err == nil || !strings.Contains(err.Error(), "most") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := readAll(endless{}, 100); err == nil {
		t.Error("more than the most was read")
	}
}
