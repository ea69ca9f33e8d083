package server

import (
	"testing"

	"github.com/sirupsen/logrus"
)

func TestGarbageIsLimitedUnlessTheOperatorSays(t *testing.T) {
	for gogc, want := range map[string]int{"": garbage, "100": 0, "off": 0} {
		got := 0
		limitGarbage(func(name string) string {
			if name != "GOGC" {
				t.Errorf("asked for %s", name)
			}
			return gogc
		}, func(percent int) int { got = percent; return 100 }, logrus.WithField("test", t.Name()))
		if got != want {
			t.Errorf("GOGC=%q: set to %d, want %d", gogc, got, want)
		}
	}
}
