// Command shell is /bin/sh of the images that are to have the shell of busybox
// 1.37. Debian's is older and does not pass on variables with names that no shell
// could set, such as a-b, which Kubernetes allows. Where there is one, bash runs.
package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

var settable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func main() {
	program := "/bin/busybox"
	if slices.ContainsFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !settable.MatchString(name)
	}) {
		program = "/bin/bash"
	}
	fmt.Fprintln(os.Stderr, syscall.Exec(program, os.Args, os.Environ()))
	os.Exit(126)
}
