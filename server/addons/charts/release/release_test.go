package release

import (
	"reflect"
	"strings"
	"testing"

	helmv1 "github.com/k3s-io/helm-controller/pkg/apis/helm.cattle.io/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/a4s-io/a4s/tests/charthost"
)

// TestNext: what follows from the last revision, for each status that Helm writes.
func TestNext(t *testing.T) {
	const same, other = "a", "b"
	all := func(s Step) [3]Step { return [3]Step{s, s, s} }
	for what, c := range map[string]struct {
		last Revision
		want [3]Step // reinstall, retry, abort
	}{
		"none":                      {Revision{}, all(Apply)},
		"as it should be":           {Revision{1, "deployed", same, false}, all(Nothing)},
		"changed":                   {Revision{1, "deployed", other, false}, all(Apply)},
		"of helm by hand":           {Revision{1, "deployed", "", false}, all(Apply)},
		"superseded, which is odd":  {Revision{1, "superseded", same, false}, all(Apply)},
		"killed while it installed": {Revision{1, "pending-install", same, false}, all(Resume)},
		"killed while it upgraded":  {Revision{2, "pending-upgrade", same, false}, all(Resume)},
		"killed while it went back": {Revision{2, "pending-rollback", other, false}, all(Resume)},
		"killed again after that":   {Revision{2, "failed", same, true}, all(Apply)},
		"killed while it went":      {Revision{1, "uninstalling", same, false}, all(Reinstall)},
		"kept by helm uninstall":    {Revision{1, "uninstalled", same, false}, all(Reinstall)},
		"failed":                    {Revision{1, "failed", same, false}, [3]Step{Reinstall, GiveUp, GiveUp}},
		"failed, and changed":       {Revision{1, "failed", other, false}, [3]Step{Reinstall, Apply, GiveUp}},
	} {
		for i, policy := range []helmv1.FailurePolicy{helmv1.FailurePolicyReinstall, helmv1.FailurePolicyRetry,
			helmv1.FailurePolicyAbort} {
			if got := Next(c.last, same, policy); got != c.want[i] {
				t.Errorf("%s, %s: %d, want %d", what, policy, got, c.want[i])
			}
		}
		if got := Next(c.last, same, ""); got != c.want[0] {
			t.Errorf("%s, without a policy: %d, want %d", what, got, c.want[0])
		}
	}
}

// TestLatest: numbers count, not the order of texts.
func TestLatest(t *testing.T) {
	labels := func(version, status string, more ...string) map[string]string {
		l := map[string]string{"version": version, "status": status}
		for i := 0; i < len(more); i += 2 {
			l[more[i]] = more[i+1]
		}
		return l
	}
	got := Latest([]map[string]string{labels("9", "superseded"), labels("x", "deployed"),
		labels("10", "failed", HashLabel, "h", interruptedLabel, "true"), labels("2", "superseded")})
	if got != (Revision{10, "failed", "h", true}) {
		t.Errorf("%+v", got)
	}
	if got := Latest(nil); got != (Revision{}) {
		t.Errorf("none: %+v", got)
	}
}

// TestValues: later documents over earlier ones, single values over all, and texts stay texts.
func TestValues(t *testing.T) {
	got, err := Values([]Document{
		{"a", "image: {tag: one, name: web}\nlist: [1, 2]\n"},
		{"b", `{"image": {"tag": "two"}, "list": [3]}`},
		{"c", ""},
	}, map[string]intstr.IntOrString{
		"image.port": intstr.FromInt32(80), "on": intstr.FromString("true"), "text": intstr.FromString("0123"),
		"many": intstr.FromString(`a,b\,c`), "nothing": intstr.FromString("null"),
		`key\.with\.dots`: intstr.FromString("x"),
		"entries[0].name": intstr.FromString("n"),
	})
	want := map[string]any{
		"image":         map[string]any{"tag": "two", "name": "web", "port": int64(80)},
		"list":          []any{3.0},
		"on":            true,
		"text":          "0123",
		"many":          "a,b,c",
		"nothing":       nil,
		"key.with.dots": "x",
		"entries":       []any{map[string]any{"name": "n"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, %v", got, err)
	}
	for where, c := range map[string]struct {
		documents []Document
		set       map[string]intstr.IntOrString
	}{
		"spec.valuesContent": {documents: []Document{{"spec.valuesContent", "a: [\n"}}},
		"spec.values":        {documents: []Document{{"spec.values", "text"}}},
		"spec.set: a[-1]":    {set: map[string]intstr.IntOrString{"a[-1]": intstr.FromString("x")}},
	} {
		if _, err := Values(c.documents, c.set); err == nil || !strings.HasPrefix(err.Error(), where+": ") {
			t.Errorf("%s: %v", where, err)
		}
	}
}

// TestChartsThatCannotBeInstalled are refused before anything is done.
func TestChartsThatCannotBeInstalled(t *testing.T) {
	chart := func(text string) []byte {
		return charthost.Archive(t, "x", "1.0.0", map[string]string{"Chart.yaml": text})
	}
	for what, c := range map[string]struct {
		archive []byte
		want    string
	}{
		"no archive":     {[]byte("<html>"), "reading the chart"},
		"nothing":        {nil, "reading the chart"},
		"a library":      {chart("apiVersion: v2\nname: x\nversion: 1.0.0\ntype: library\n"), "want application"},
		"without a name": {chart("apiVersion: v2\nversion: 1.0.0\n"), "reading the chart"},
		"not complete": {chart("apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies:\n" +
			"- {name: needed, version: 1.0.0, repository: 'https://charts.example.com'}\n"), "needed"},
	} {
		if _, err := (Request{Archive: c.archive}).load(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
