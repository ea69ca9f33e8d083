package cmd

import (
	"slices"
	"strings"
	"testing"
)

// TestOrder: what urfave/cli gets has flags before arguments, each with one value.
func TestOrder(t *testing.T) {
	root := NewApp(Modes{}).root
	for args, want := range map[string]string{
		"token create abc --ttl 1h":             "a4s token create --ttl=1h -- abc",
		"tenant delete a --wait=false b":        "a4s tenant delete --wait=false -- a b",
		"tenant delete --force a":               "a4s tenant delete --force=true -- a",
		"tenant delete -- --force":              "a4s tenant delete -- --force",
		"tenant list -ojson":                    "a4s tenant list --output=json",
		"tenant list -o=json":                   "a4s tenant list --output=json",
		"tenant list -o json -o name":           "a4s tenant list --output=json --output=name",
		"tenant -o json list":                   "a4s tenant list --output=json",
		"-ojson tenant --kubeconfig=x list":     "a4s tenant list --output=json --kubeconfig=x",
		"tenant list --output -x":               "a4s tenant list --output=-x",
		"tenant list --output=":                 "a4s tenant list --output=",
		"token delete - b":                      "a4s token delete -- - b",
		"etcd-snapshot ls --dir x":              "a4s etcd-snapshot list --etcd-snapshot-dir=x",
		"certificate check -c x -d y":           "a4s certificate check --config=x --data-dir=y",
		"tenant create t --group a,b --group c": "a4s tenant create --group=a,b --group=c -- t",
		"node drain n --grace-period -1":        "a4s node drain --grace-period=-1 -- n",
		"server --debug -t x -- y":              "a4s server --debug -t x -- y",
		"kubectl get pods --help -- x":          "a4s kubectl get pods --help -- x",
		"ctr --version":                         "a4s ctr --version",
		"--version":                             "a4s --version=true",
	} {
		o, err := order(root, strings.Fields(args))
		if got := strings.Join(o.whole(), " "); err != nil || got != want || o.help {
			t.Errorf("%s: %q, help %v, %v; want %q", args, got, o.help, err, want)
		}
	}
}

// TestOrderGoesOnAfterAMistake, for shells.
func TestOrderGoesOnAfterAMistake(t *testing.T) {
	o, err := order(NewApp(Modes{}).root, strings.Fields("tenant create --bogus --role view t --partition"))
	if err == nil || !slices.Equal(o.names, []string{"role"}) || !slices.Equal(o.args, []string{"t"}) ||
		o.open == nil || o.open.Names()[0] != "partition" {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestNoFlagHasTwoMeanings: urfave/cli would take the first.
func TestNoFlagHasTwoMeanings(t *testing.T) {
	root := NewApp(Modes{}).root
	for _, path := range commandPaths() {
		o, _ := order(root, strings.Fields(path))
		known := map[string]bool{}
		for _, f := range o.command().Flags {
			for _, name := range f.Names() {
				if known[name] {
					t.Errorf("%s has two flags %s", path, name)
				}
				known[name] = true
			}
		}
	}
}
