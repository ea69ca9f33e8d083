// Command gendocs writes the configuration reference from the flag tables to
// the file that its argument names.
package main

import (
	"fmt"
	"os"

	"github.com/a4s-io/a4s/internal/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gendocs FILE")
		os.Exit(1)
	}
	if err := os.WriteFile(os.Args[1], []byte(config.Markdown()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}
