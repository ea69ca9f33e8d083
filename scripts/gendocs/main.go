// Command gendocs writes the generated pages of the documentation: the
// configuration reference from the flag tables, and the tables of tenancy. Its
// arguments are the files to write, by default both below docs.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

func main() {
	files := os.Args[1:]
	if len(files) == 0 {
		files = []string{"docs/reference/configuration.md", "docs/reference/tenancy-tables.md"}
	}
	for _, file := range files {
		if err := write(file); err != nil {
			fmt.Fprintln(os.Stderr, "gendocs:", err)
			os.Exit(1)
		}
	}
}

func write(file string) error {
	var text string
	switch name := filepath.Base(file); name {
	case "configuration.md":
		text = config.Markdown()
	case "tenancy-tables.md":
		text = wire.Markdown()
	default:
		return fmt.Errorf("%s is not a generated page", name)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
