package spaces_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/a4s-io/a4s/server/addons/charts"
	"github.com/a4s-io/a4s/server/addons/charts/confined"
)

// TestMain is also what looks at HelmCharts of tenants: a server starts its own program for that.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == confined.Command {
		if err := confined.Main(context.Background(), charts.Confined); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
