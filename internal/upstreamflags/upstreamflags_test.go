package upstreamflags

import (
	"errors"
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestUserArgumentReplacesOursByName(t *testing.T) {
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	plugins := fs.StringSlice("enable-admission-plugins", nil, "")
	profiling := fs.Bool("profiling", true, "")
	err := Parse(fs, "--kube-apiserver-arg",
		map[string]string{"enable-admission-plugins": "NodeRestriction", "profiling": "false"},
		[]string{"--enable-admission-plugins=AlwaysPullImages", "enable-admission-plugins=NodeRestriction"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"AlwaysPullImages", "NodeRestriction"}; !slices.Equal(*plugins, want) {
		t.Errorf("plugins = %v, want %v", *plugins, want)
	}
	if *profiling {
		t.Error("our default for profiling was lost")
	}
}

// Upstream's programs take underscores for dashes, and have flags with either.
func TestUnderscoresAreDashes(t *testing.T) {
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	syncs := fs.Int("concurrent_rc_syncs", 5, "")
	plugins := fs.StringSlice("enable-admission-plugins", nil, "")
	err := Parse(fs, "--kube-controller-manager-arg",
		map[string]string{"concurrent_rc_syncs": "20", "enable-admission-plugins": "NodeRestriction"},
		[]string{"concurrent-rc-syncs=7", "enable_admission_plugins=AlwaysPullImages"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"AlwaysPullImages"}; *syncs != 7 || !slices.Equal(*plugins, want) {
		t.Errorf("%d syncs and the plugins %v, want 7 and %v", *syncs, *plugins, want)
	}
}

func TestBadUserArgumentNamesItsFlag(t *testing.T) {
	for _, arg := range []string{"no-such-flag=1", "profiling=maybe", "profiling", "=x"} {
		fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
		fs.Bool("profiling", true, "")
		err := Parse(fs, "--kube-apiserver-arg", nil, []string{arg})
		var in *problem.Input
		if !errors.As(err, &in) || in.Source != "--kube-apiserver-arg" || in.Value != arg || in.Want == "" {
			t.Errorf("Parse(%q) = %v, want a complete problem.Input", arg, err)
		}
	}
}
