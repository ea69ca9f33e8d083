package process

import (
	"os"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/config"
)

// spareFromProxy has the proxy of the environment, which is there for images and the world
// outside, not asked for what is inside the cluster: pods, Services, their names, and this
// machine. Which other nodes there will be nobody knows yet, so their addresses are the user's
// to add. It must be called before anything connects, as Go reads these variables once.
func spareFromProxy(cfg *config.Server, own []string) error {
	value, changed := noProxy(os.Getenv, slices.Concat(own, strings.Split(cfg.ClusterCIDR, ","),
		strings.Split(cfg.ServiceCIDR, ","), []string{".svc", "." + cfg.ClusterDomain}))
	if !changed {
		return nil
	}
	logrus.Infof("The proxy of the environment is not asked for %s: add other nodes to NO_PROXY", value)
	// Both spellings, because programs that nodes start read one or the other.
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// noProxy is the value of NO_PROXY that has what is inside, too. It does not change without a
// proxy, nor where nothing goes by it.
func noProxy(getenv func(string) string, inside []string) (value string, changed bool) {
	if !slices.ContainsFunc([]string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"},
		func(name string) bool { return getenv(name) != "" }) {
		return "", false
	}
	if value = getenv("NO_PROXY"); value == "" {
		value = getenv("no_proxy")
	}
	var all []string
	for _, one := range append(strings.Split(value, ","), inside...) {
		if one = strings.TrimSpace(one); one == "*" {
			return value, false
		}
		if one != "" && !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return strings.Join(all, ","), true
}
