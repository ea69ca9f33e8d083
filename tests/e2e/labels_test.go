package e2e

import (
	"context"
	"fmt"
	"regexp"
)

// hasLabels returns a check that what cAdvisor in the kubelet tells of a pod on the
// server's node names its container and its image.
func hasLabels(c *cluster, pod, ns string) func(context.Context) error {
	series := regexp.MustCompile(fmt.Sprintf(
		`(?m)^container_cpu_usage_seconds_total\{container="[^"]+".*image="[^"]+testbox:1",`+
			`name="[^"]+",namespace="%s",pod="%s"`,
		regexp.QuoteMeta(ns), regexp.QuoteMeta(pod)))
	return func(ctx context.Context) error {
		text, err := c.client.CoreV1().RESTClient().Get().
			AbsPath("/api/v1/nodes", c.host.Name, "proxy/metrics/cadvisor").DoRaw(ctx)
		if err != nil {
			return err
		}
		if !series.Match(text) {
			return fmt.Errorf("no such series of %d bytes", len(text))
		}
		return nil
	}
}
