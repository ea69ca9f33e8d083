package featuregates

import (
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestMistakesAreFoundBeforeAnythingIsSet(t *testing.T) {
	const source = "--kube-apiserver-arg"
	before := utilfeature.DefaultFeatureGate.Enabled(features.WatchList)
	for _, arg := range []string{
		"feature-gates=Unknown=true", "--feature-gates=WatchList=maybe", "feature-gates=kube:Unknown=true",
		"feature-gates=WatchList=true,kube:WatchList=false", "feature-gates=other:WatchList=true",
		"feature-gates=WatchList", "feature_gates=Unknown=true",
		"emulated-version=one", "emulated-version=1.20", "emulated-version=other=1.36",
	} {
		var in *problem.Input
		if err := Check(source, []string{arg}); !errors.As(err, &in) || in.Source != source || in.Value != arg {
			t.Errorf("%s: %v", arg, err)
		}
	}
	for _, args := range [][]string{nil, {"profiling=true"}, {"feature-gates=WatchList=false"},
		{"feature-gates=kube:WatchList=false", "v=2"}} {
		if err := Check(source, args); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.WatchList) != before {
		t.Error("a check has set a gate")
	}
}
