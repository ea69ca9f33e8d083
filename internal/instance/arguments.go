package instance

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxArguments is how much is read of a command line. Those that are looked for are shorter.
const maxArguments = 64 << 10

// Arguments are those of a process, as far as the first 64 KiB have them. dir is its directory in /proc.
// A process chooses what is there, and can make it terabytes.
func Arguments(dir string) ([]string, error) {
	f, err := os.Open(filepath.Join(dir, "cmdline"))
	if err != nil {
		return nil, fmt.Errorf("reading the arguments of a process: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxArguments))
	if err != nil {
		return nil, fmt.Errorf("reading the arguments of a process: %w", err)
	}
	if len(text) == 0 {
		return nil, nil // of the kernel, or ended
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), nil
}
