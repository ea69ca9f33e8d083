//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/a4s-io/a4s/embedded/guest/link"
	"github.com/a4s-io/a4s/embedded/guest/machine"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case machine.StageProcess:
			machine.Stage()
			os.Exit(1)
		case machine.StagePause:
			machine.Pause()
		}
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "this program is process 1 of a virtual machine")
		os.Exit(1)
	}
	err := run()
	// When process 1 ends, the kernel panics and the machine with it.
	say("cannot go on: %v", err)
	time.Sleep(time.Second) // for the console
	os.Exit(1)
}

// say writes a line on the machine's console.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "a4s-guest: "+format+"\n", args...)
}

func run() error {
	if err := machine.Boot(say); err != nil {
		return err
	}
	ctx := context.Background()
	m := machine.New()
	s := server.New(m, say)
	waiting := time.AfterFunc(30*time.Second, func() { say("still no port to the host") })
	port, err := machine.OpenPort(ctx)
	waiting.Stop()
	if err != nil {
		return err
	}
	info := m.Info()
	say("ready after %v, kernel %s", info.Uptime.Round(time.Millisecond), info.Kernel)
	return link.Serve(ctx, port, s.Handle)
}
