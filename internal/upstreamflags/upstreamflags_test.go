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
