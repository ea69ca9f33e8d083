package sides

import (
	"flag"
	"fmt"
	"path/filepath"
)

// Parse reads the arguments of a benchmark. With --smoke, which it adds, the flags that were
// not set have the values of a small run.
func Parse(flags *flag.FlagSet, args []string, smoke map[string]string) error {
	small := flags.Bool("smoke", false, "try everything at a small size: what the numbers mean is nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if !*small {
		return nil
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range smoke {
		if given[name] {
			continue
		}
		if err := flags.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// Absolute makes paths absolute.
func Absolute(paths ...*string) (err error) {
	for _, path := range paths {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}
